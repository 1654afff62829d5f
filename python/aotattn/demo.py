"""What `make demo` runs: what was built, which kernels problems get, and one attention call and its error.

Needs no GPU, no compiler and no driver. The call needs torch; without a GPU it runs on the emulator.
"""

import sqlite3
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import runtime
from .arch import ARCHS
from .bench.cases import Case
from .describe import UserError
from .explain import explain_case

if TYPE_CHECKING:
    import torch

    from .device import Device

    Call = Callable[[], torch.Tensor]

CASES = (
    Case(batch=2, heads_q=16, heads_k=4, seqlen_q=4096, head_dim=128, mask="causal"),
    Case(dtype="f16", heads_q=8, seqlen_q=1, seqlen_k=8192, head_dim=64, mask="causal", alignment="bottom_right"),
    Case(batch=2, heads_q=8, seqlen_q=1000, seqlen_k=1300, head_dim=72, mask="window", window_left=255, window_right=0),
    Case(dtype="f32", heads_q=4, seqlen_q=200, head_dim=64),
    Case(heads_q=4, seqlen_q=128, head_dim=520),
)
EMULATED = Case(heads_q=4, heads_k=2, seqlen_q=200, seqlen_k=300, head_dim=128, mask="causal")
SEED = 1  # of the inputs: the demo runs the same problem each time


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
                print(f"  {case}\n    {chosen(explain_case(case, arch))}")
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
    if torch.cuda.is_available():
        return gpu_run()
    try:
        return emulated_run()
    except (ImportError, UserError, runtime.AotError) as error:
        return f"No GPU here, and the emulator did not run attention: {error}"


def gpu_run() -> str:
    from .bench.against import activated, ours
    from .bench.timing import alternate, device_time
    from .device import open_device

    case = CASES[0]

    def time(call: "Call") -> str:
        timing = alternate({"aotattn": ours(call)}, device_time)["aotattn"]
        tflops = case.flops() / timing.median_us / 1e6
        return f"  time     {timing.median_us:.1f} us, {tflops:.0f} TFLOP/s, spread {timing.spread:.1%}"

    return sdpa_run(open_device(), case, activated, time)


def emulated_run() -> str:
    from .bench.profile import NOTE
    from .device import EmulatedDevice, open_device

    device = open_device("gfx950")
    if not isinstance(device, EmulatedDevice):
        raise UserError(f"{device.name} is not the emulator")
    import aotattn.torch

    def cycles(call: "Call") -> str:
        device.set("cycles", "1")
        with aotattn.torch.use_emulated_device():
            call()
        clocks = device.profile()["modelled"]["clocks"]
        return f"  cycles   {clocks['median']:.0f} ({clocks['low']:.0f} to {clocks['high']:.0f}) a workgroup, {NOTE}"

    return sdpa_run(device, EMULATED, aotattn.torch.use_emulated_device, cycles)


def sdpa_run(
    device: "Device", case: Case, served: Callable[[], AbstractContextManager[object]], figure: "Callable[[Call], str]"
) -> str:
    """Run F.scaled_dot_product_attention as `served` has it; what happened, its last line `figure` of the call."""
    from .bench.against import sdpa
    from .bench.inputs import draw
    from .reference import Mask, exact, judge, plain, worst

    tensors = draw(case, device.compute, SEED)
    q, k, v = (tensors[name].view for name in "qkv")
    call = sdpa(case, q, k, v)
    before = runtime.launch_count()
    with served():
        out = call()
    launches = runtime.launch_count() - before
    plan = chosen(explain_case(case, device.arch, device.compute_units))
    if not launches:
        return f"{device.name}, {device.arch}: {case} was left to PyTorch: {plan}"
    mask = Mask(case.mask, case.alignment, case.window_left, case.window_right)
    expected, _ = exact(q, k, v, sm_scale=case.sm_scale, mask=mask)
    baseline, _ = plain(q, k, v, sm_scale=case.sm_scale, mask=mask)
    check = worst(judge("out", case.dtype, out, expected, baseline))
    return "\n".join(
        (
            f"F.scaled_dot_product_attention on {device.name} ({device.arch}, {device.compute_units} compute units)",
            f"  case     {case}",
            f"  plan     {plan}",
            f"  launches {launches}",
            f"  error    {check.error:.3g} ({check.name}) against float64, allowed {check.allowed:.3g}: "
            + ("passed" if check.passed else "FAILED"),
            figure(call),
        )
    )


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(f"aotattn: {error}")
