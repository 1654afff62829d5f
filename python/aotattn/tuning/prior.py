"""What to choose where nobody has measured: rules over the variants, written as `prior` rows.

`python -m aotattn.tuning.prior` writes them anew after kernels or configs have changed.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ..arch import ARCHS
from ..describe import Variant, text
from ..kernels import KERNELS
from .rows import Row, merge, read_rows, rows_path, write_rows

RULE = "rule:rows-of-a-tile"
BINS = ((1, 1024), (16, 1024), (64, 1024), (1024, 1024), (16384, 16384))  # seqlen_q, seqlen_k
BATCH_HEADS = 32


def prior_rows(arch: str, variants: Iterable[Variant]) -> list[Row]:
    """One row a functional and bin: the variant that the rule puts first, if it is not the default order's first."""
    functionals: dict[str, list[Variant]] = defaultdict(list)
    for variant in variants:
        functionals[text(variant.features)].append(variant)
    return [row for features, group in functionals.items() for row in _rows(arch, features, group)]


def _rows(arch: str, features: str, variants: Sequence[Variant]) -> Iterator[Row]:
    chosen = {sizes: first_choice(variants, sizes[0]) for sizes in BINS}
    if all(variant is variants[0] for variant in chosen.values()):
        return  # the default order says the same
    for (seqlen_q, seqlen_k), variant in chosen.items():
        yield Row(
            features=features,
            compute_units=ARCHS[arch].compute_units,
            seqlen_q=seqlen_q,
            seqlen_k=seqlen_k,
            batch_heads=BATCH_HEADS,
            backend=variant.kernel.backend,
            kernel=variant.kernel.name,
            config=text(variant.config),
            time_us=None,
            spread=None,
            error=None,
            provenance="prior",
            device="",
            revision=RULE,
        )


def first_choice(variants: Sequence[Variant], seqlen_q: int) -> Variant:
    """The default, unless half of its rows or more are not there: then the first variant with the fewest such rows."""

    def wasted(variant: Variant) -> int:
        block_m = int(variant.config.get("block_m", 1))
        return -seqlen_q % block_m

    default = variants[0]
    return default if wasted(default) < seqlen_q else min(variants, key=wasted)


def write_prior(directory: Path, archs: Iterable[str]) -> None:
    """Put the rules' rows into the files of `directory`, in place of those that the rules gave before."""
    for arch in archs:
        for operator in {k.operator.name for k in KERNELS.values()}:
            kernels = [k for k in KERNELS.values() if k.operator.name == operator]
            path = rows_path(directory, arch, operator)
            kept = [row for row in read_rows(path) if row.revision != RULE]
            rules = prior_rows(arch, (v for kernel in kernels for v in kernel.variants(arch)))
            write_rows(path, merge(kept, rules))


if __name__ == "__main__":
    write_prior(Path(__file__).resolve().parents[3] / "tuning_db", ("gfx950", "sm_90"))
