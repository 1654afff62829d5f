"""What `make demo` runs: what was built, which kernels problems get, and one attention call and its error.

Needs no GPU, no compiler and no driver. The call needs torch; without a GPU it runs on the emulator.
"""

import sqlite3
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import runtime
from .arch import ARCHS
from .bench.cases import Case
from .describe import UserError

if TYPE_CHECKING:
    import torch

CASES = (
    Case(batch=2, heads_q=16, heads_k=4, seqlen_q=4096, head_dim=128, mask="causal"),
    Case(dtype="f16", heads_q=8, seqlen_q=1, seqlen_k=8192, head_dim=64, mask="causal", alignment="bottom_right"),
    Case(batch=2, heads_q=8, seqlen_q=1000, seqlen_k=1300, head_dim=72, mask="window", window_left=255, window_right=0),
    Case(dtype="f32", heads_q=4, seqlen_q=200, head_dim=64),
    Case(heads_q=4, seqlen_q=128, head_dim=520),
)
EMULATED = Case(heads_q=4, heads_k=2, seqlen_q=200, seqlen_k=300, head_dim=128, mask="causal", alignment="bottom_right")
SEED = 1  # of the emulated case's inputs: the demo prints the same figures each time
DATA = 1 << 20  # an aligned address that nobody reads
TIMED_RUNS = 20


def main() -> None:
    directory = runtime.library_directory()
    stores = sorted((directory / "aotattn").glob("aotattn-*.db"))
    if not stores:
        raise UserError(f"no kernel store in {directory / 'aotattn'}; run make build")
    print(f"aotattn {runtime.version()}")
    for path in sorted(directory.glob("libaotattn*.so")):
        print(f"  {path.name}: {megabytes(path)}")
    for path in stores:
        print(f"  {path.name}: {store_contents(path)}")
    for arch in sorted(path.stem.removeprefix("aotattn-") for path in stores):
        if arch in ARCHS:
            print(f"\nWhich kernel a problem gets on {arch} (`aotattn explain CASE --arch {arch}`)")
            for case in CASES:
                print(f"  {case}\n    {chosen(explain(case, arch))}")
    print(f"\n{attention_run()}")


def megabytes(path: Path) -> str:
    return f"{path.stat().st_size / 1e6:.1f} MB"


def store_contents(path: Path) -> str:
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        (plans, functionals), (images, size) = (
            db.execute(query).fetchone()
            for query in (
                "SELECT count(*), count(DISTINCT operator || features) FROM plan",
                "SELECT count(*), coalesce(sum(bytes), 0) FROM image",
            )
        )
    finally:
        db.close()
    return (
        f"{megabytes(path)}, {plans} plans for {functionals} feature sets, "
        f"{images} images of {size / 1e6:.1f} MB uncompressed"
    )


def explain(case: Case, arch: str) -> dict[str, Any]:
    """What aot_explain says of the case."""
    views = {name: runtime.View(DATA, p.dtype, p.size, p.stride) for name, p in case.tensors().items()}
    return runtime.explain(case.op, runtime.parameters(case.op, case.arguments(views)), arch)


def chosen(answer: dict[str, Any]) -> str:
    if answer["status"] != "ok":
        return f"{answer['status']}: {answer['reason']}"
    steps = [f"{step['backend']}/{step['kernel']}/{step['config']} grid {step['grid']}" for step in answer["plan"]]
    return f"{'; '.join(steps)} ({answer['provenance']})" if steps else answer["reason"]


def attention_run() -> str:
    """Run attention through the library, on a GPU if there is one, else on the emulator; says what happened."""
    try:
        import torch
    except ImportError:
        return "torch is not installed: no attention was run."
    return gpu_run() if torch.cuda.is_available() else emulated_run()


def emulated_run() -> str:
    """Run a case through the C library on emulated gfx950; its error against float64, and what the model says."""
    from .bench.profile import NOTE, profile
    from .device import open_device
    from .verify import verify_case

    arch = "gfx950"
    try:
        device = open_device(arch)
        figures = profile(EMULATED, device, seed=SEED)
    except (UserError, runtime.AotError) as error:
        return f"No GPU here, and the emulator did not run the case: {error}"
    (result,) = verify_case(EMULATED, device, seed=SEED, plan=figures["plan"])
    clocks = figures["modelled"]["clocks"]
    return "\n".join(
        (
            f"No GPU here: attention on {device.name}, through the C library and a {arch} code object",
            f"  case     {EMULATED}",
            f"  plan     {chosen(explain(EMULATED, arch))}",
            f"  error    {result.error:.3g} ({result.check}) against float64, allowed {result.allowed:.3g}: "
            + ("passed" if result.passed else f"FAILED {result.reason}"),
            f"  cycles   {clocks['median']:.0f} ({clocks['low']:.0f} to {clocks['high']:.0f}) a workgroup, {NOTE}",
        )
    )


def gpu_run() -> str:
    """Run F.scaled_dot_product_attention through the library on the GPU; says what happened."""
    import torch

    arch, compute_units = runtime.device_info(runtime.torch_platform(), torch.cuda.current_device())
    case = CASES[0]
    before = runtime.launch_count()
    q, k, v, out, time_us = _attention(case)
    launches = runtime.launch_count() - before
    if not launches:
        return f"{torch.cuda.get_device_name()}, {arch}: {case} was left to PyTorch: {chosen(explain(case, arch))}"
    error, plain = _errors(case, q, k, v, out)
    return "\n".join(
        (
            f"F.scaled_dot_product_attention on {torch.cuda.get_device_name()} ({arch}, {compute_units} compute units)",
            f"  case     {case}",
            f"  plan     {chosen(explain(case, arch))}",
            f"  launches {launches}",
            f"  error    {error:.3g} against float64; PyTorch's plain formula in {case.dtype}: {plain:.3g}",
            f"  time     {time_us:.1f} us, {case.flops() / time_us / 1e6:.0f} TFLOP/s (median of {TIMED_RUNS})",
        )
    )


def _attention(case: Case) -> "tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, float]":
    """q, k, v drawn for the case, the library's output, and the median time of a call in microseconds."""
    import torch
    import torch.nn.functional as F
    from torch.nn.attention import (
        SDPBackend,
        activate_flash_attention_impl,
        restore_flash_attention_impl,
        sdpa_kernel,
    )

    import aotattn.torch  # noqa: F401  registers "aotattn"

    def draw(heads: int, seqlen: int) -> torch.Tensor:
        return torch.randn(case.batch, heads, seqlen, case.head_dim, device="cuda", dtype=torch.bfloat16)

    q, k, v = draw(case.heads_q, case.seqlen_q), draw(case.heads_k, case.seqlen_k), draw(case.heads_k, case.seqlen_k)
    times = []
    activate_flash_attention_impl("aotattn")
    try:
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            for _ in range(TIMED_RUNS + 1):  # the first loads the kernel
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                start.record()
                out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
                end.record()
                end.synchronize()
                times.append(start.elapsed_time(end) * 1e3)
    finally:
        restore_flash_attention_impl()
    return q, k, v, out, statistics.median(times[1:])


def _errors(
    case: Case, q: "torch.Tensor", k: "torch.Tensor", v: "torch.Tensor", out: "torch.Tensor"
) -> tuple[float, float]:
    """Greatest error against float64 of `out`, and of PyTorch's math in the inputs' dtype; a batch at a time."""
    import torch.nn.functional as F
    from torch.nn.attention import SDPBackend, sdpa_kernel

    ours = plain = 0.0
    with sdpa_kernel(SDPBackend.MATH):
        for queries, keys, values, result in zip(q.split(1), k.split(1), v.split(1), out.split(1), strict=True):
            exact = F.scaled_dot_product_attention(
                queries.double(), keys.double(), values.double(), is_causal=True, enable_gqa=True
            )
            math = F.scaled_dot_product_attention(queries, keys, values, is_causal=True, enable_gqa=True)
            ours = max(ours, float((result.double() - exact).abs().max()))
            plain = max(plain, float((math.double() - exact).abs().max()))
    return ours, plain


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(f"aotattn: {error}")
