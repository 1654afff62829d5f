"""The support table of the docs, derived from the descriptions. `python -m aotattn.support` prints it."""

from .arch import ARCHS
from .describe import Values
from .kernels import KERNELS


def support_table() -> str:
    """Markdown: for each operator and kernel what it computes on which arch, and why it declines the rest."""
    lines = ["# Supported problems", "", "Derived from the descriptions by `python -m aotattn.support`.", ""]
    for operator in {k.operator.name: k.operator for k in KERNELS.values()}.values():
        lines += [f"## {operator.name}", "", "| feature | values |", "|---|---|"]
        lines += [f"| {c.name} | {' '.join(map(str, c.values))} |" for c in operator.features]
        lines += ["", "| kernel | backend | arch | functionals | variants | declines |", "|---|---|---|---|---|---|"]
        functionals = list(operator.functionals())
        for kernel in (k for k in KERNELS.values() if k.operator is operator):
            for arch in ARCHS:
                reasons = [kernel.declines(arch, f) for f in functionals]
                taken = reasons.count(None)
                if taken:
                    why = "; ".join(sorted({_general(r, f) for r, f in zip(reasons, functionals, strict=True) if r}))
                    variants = sum(1 for _ in kernel.variants(arch))
                    lines.append(f"| {kernel.name} | {kernel.backend} | {arch} | {taken} | {variants} | {why} |")
        lines.append("")
    return "\n".join(lines)


def _general(reason: str, features: Values) -> str:
    """The reason without the numbers of one functional."""
    for name in ("head_dim", "head_dim_v"):
        reason = reason.replace(f"{name} {features[name]} ", f"{name} ")
    return reason


if __name__ == "__main__":
    print(support_table(), end="")
