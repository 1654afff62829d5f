"""The binding on a fake CUDA device, over a stub of the C library. Run by test_binding.py in a process of its own.

FAKE_LIBRARIES names the directory with libaotattn_torch.so, the stub as libaotattn.so, and libfake_cuda.so;
FAKE_PLATFORM is cuda or hip: which build of PyTorch this pretends to be.
"""

import contextlib
import ctypes
import logging
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from aotattn import runtime
from aotattn.bench.against import OURS, ours, peer
from aotattn.bench.timing import Side, alternate
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention import (
    SDPBackend,
    activate_flash_attention_impl,
    current_flash_attention_impl,
    list_flash_attention_impls,
    restore_flash_attention_impl,
    sdpa_kernel,
)

DIRECTORY = Path(os.environ["FAKE_LIBRARIES"])
PLATFORM = os.environ["FAKE_PLATFORM"]
if PLATFORM == "hip":
    torch.version.hip = "7.1"
    torch.cuda.is_available = lambda: True
runtime.library_directory = lambda: DIRECTORY

import aotattn.torch  # noqa: E402

FAKE = ctypes.CDLL(str(DIRECTORY / "libfake_cuda.so"), ctypes.RTLD_GLOBAL)
STUB = ctypes.CDLL(str(DIRECTORY / "libaotattn.so"))
STUB.stub_scale.restype = ctypes.c_float
STUB.stub_workspace.restype = ctypes.c_void_p
FAKE.fake_fail.argtypes = (ctypes.c_char_p,)
FAKE.fake_start()
torch.cuda._lazy_init = lambda: None  # refuses to start CUDA in a CPU build

FLASH = torch.ops.aten._scaled_dot_product_flash_attention
OPERATORS = ("flash", "efficient", "cudnn")
FILL = 7.0  # what stands for PyTorch's own kernel gives this


@pytest.fixture
def active() -> Iterator[None]:
    activate_flash_attention_impl("aotattn")
    yield
    if current_flash_attention_impl():
        restore_flash_attention_impl()


def attend(
    operator: str,
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    bias: torch.Tensor | None = None,
    lse: bool = True,
    dropout_p: float = 0.0,
    causal: bool = False,
    debug_mask: bool = False,
    scale: float | None = None,
) -> Any:
    """PyTorch's operators, called alike."""
    arguments: list[Any] = [q, k, v]
    if operator != "flash":
        arguments += [bias, lse]
    arguments += [dropout_p, causal]
    if operator != "efficient":
        arguments += [debug_mask]
    return getattr(torch.ops.aten, f"_scaled_dot_product_{operator}_attention")(*arguments, scale=scale)


def draw(heads: int, seqlen: int, head_dim: int = 32, *, batch: int = 2, dtype: torch.dtype = torch.bfloat16) -> Any:
    generator = torch.Generator().manual_seed(heads * seqlen + head_dim)
    return torch.randn(batch, heads, seqlen, head_dim, generator=generator).to(dtype).to("cuda:0")


def bshd(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.transpose(1, 2).contiguous().transpose(1, 2)


def packed(tensor: torch.Tensor) -> torch.Tensor:
    """The first third of a [batch, seqlen, 3, heads, head_dim] buffer."""
    batch, heads, seqlen, head_dim = tensor.shape
    buffer = torch.empty(batch, seqlen, 3, heads, head_dim, dtype=tensor.dtype, device=tensor.device)
    view = buffer.select(2, 0).transpose(1, 2)
    view.copy_(tensor)
    return view


def wide_rows(tensor: torch.Tensor) -> torch.Tensor:
    buffer = torch.empty(*tensor.shape[:3], tensor.shape[3] + 8, dtype=tensor.dtype, device=tensor.device)
    buffer[..., : tensor.shape[3]].copy_(tensor)
    return buffer[..., : tensor.shape[3]]


def broadcast(tensor: torch.Tensor) -> torch.Tensor:
    return tensor[:1].expand(tensor.shape)


LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "bhsd": lambda t: t,
    "bshd": bshd,
    "packed": packed,
    "wide_rows": wide_rows,
    "broadcast": broadcast,
}


def exact(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, scale: float, bottom_right: bool = False
) -> Any:
    """out and lse in float64 on the host."""
    q, k, v = (t.cpu().double() for t in (q, k, v))
    k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
    scores = q @ k.mT * scale
    if causal:
        seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril((k.shape[2] - q.shape[2]) * bottom_right)
        scores = scores.masked_fill(~seen, -math.inf)
    return scores.softmax(-1) @ v, scores.logsumexp(-1)


def forms(results: Any) -> list[Any]:
    return [(tuple(r.shape), r.stride(), r.dtype) if isinstance(r, torch.Tensor) else r for r in results]


def counts() -> tuple[int, int]:
    now = aotattn.torch.counters()
    return now.served, now.declined


def test_import_registers_the_name_and_activates_nothing() -> None:
    assert "aotattn" in list_flash_attention_impls()
    assert current_flash_attention_impl() is None
    before = counts(), FAKE.fake_operator_calls()
    FLASH(*(draw(2, 5) for _ in range(3)))
    assert counts() == before[0]
    assert FAKE.fake_operator_calls() == before[1] + 1


@pytest.mark.parametrize("operator", OPERATORS)
def test_activation_comes_and_goes(operator: str) -> None:
    q = draw(2, 5)
    for _ in range(3):
        activate_flash_attention_impl("aotattn")
        served, operator_calls = counts()[0], FAKE.fake_operator_calls()
        attend(operator, q, q, q)
        assert (counts()[0], FAKE.fake_operator_calls()) == (served + 1, operator_calls)
        restore_flash_attention_impl()
        attend(operator, q, q, q)
        assert (counts()[0], FAKE.fake_operator_calls()) == (served + 1, operator_calls + 1)


def test_an_old_handle_leaves_a_new_activation_alone() -> None:
    old = aotattn.torch.activation()
    old.remove()
    activate_flash_attention_impl("aotattn")
    old.remove()
    served = counts()[0]
    q = draw(2, 5)
    FLASH(q, q, q)
    assert counts()[0] == served + 1
    restore_flash_attention_impl()


@pytest.mark.usefixtures("active")
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("sizes", [(4, 4, 5, 5), (6, 2, 5, 9), (4, 1, 1, 7), (1, 1, 6, 6), (2, 2, 64, 3)], ids=str)
@pytest.mark.parametrize(("operator", "head_dim_v"), [(n, 32) for n in OPERATORS] + [("efficient", 16), ("cudnn", 16)])
def test_results_have_the_forms_of_the_meta_kernel(
    operator: str, head_dim_v: int, layout: str, sizes: tuple[int, int, int, int]
) -> None:
    heads_q, heads_k, seqlen_q, seqlen_k = sizes
    drawn = draw(heads_q, seqlen_q), draw(heads_k, seqlen_k), draw(heads_k, seqlen_k, head_dim_v)
    q, k, v = (LAYOUTS[layout](t) for t in drawn)
    served = counts()[0]
    for lse in (True, False):
        results = attend(operator, q, k, v, lse=lse)
        assert all(r.device == q.device for r in results if isinstance(r, torch.Tensor))
        with FakeTensorMode():
            fake = [torch.empty_strided(t.size(), t.stride(), dtype=t.dtype, device=t.device) for t in (q, k, v)]
            promised = attend(operator, *fake, lse=lse)
        assert forms(results) == forms(promised)
    assert counts()[0] == served + 2


@pytest.mark.usefixtures("active")
def test_forms_differ_between_cuda_and_hip() -> None:
    """What the meta kernels promise follows torch.version, so compare with what it should say too."""
    q = draw(4, 5)
    flash, efficient, cudnn = (attend(operator, q, q, q) for operator in OPERATORS)
    int64 = ((), (), torch.int64)
    rng_state = ((2,), (1,), torch.uint64) if PLATFORM == "cuda" else int64
    assert forms(flash)[2:8] == [None, None, 5, 5, rng_state, ((), (), rng_state[2])]
    assert efficient[1].shape == (2, 4, 32 if PLATFORM == "cuda" else 5)
    assert forms(efficient)[2:] == [int64, int64]
    assert forms(cudnn)[1:] == [((2, 4, 5, 1), (20, 5, 1, 1), torch.float32), None, None, 5, 5, int64, int64, None]


@pytest.mark.usefixtures("active")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("operator", OPERATORS)
def test_values(operator: str, layout: str, causal: bool, dtype: torch.dtype) -> None:
    if dtype == torch.float32 and (operator != "efficient" or PLATFORM == "cuda"):
        pytest.skip("float32 is declined")
    flash = operator == "flash"
    # cuDNN attention with a broadcast q and another head_dim_v promises an out whose last stride is not 1
    head_dim_v = 32 if flash or layout == "broadcast" else 16
    drawn = draw(6, 5, dtype=dtype), draw(2, 9, dtype=dtype), draw(2, 9, head_dim_v, dtype=dtype)
    q, k, v = (LAYOUTS[layout](t) for t in drawn)
    served = counts()[0]
    out, lse, *_ = attend(operator, q, k, v, causal=causal, scale=0.3)
    assert counts()[0] == served + 1
    assert STUB.stub_alignment() == flash
    assert STUB.stub_scale() == pytest.approx(0.3)
    expected_out, expected_lse = exact(q, k, v, causal=causal, scale=0.3, bottom_right=flash)
    torch.testing.assert_close(out.cpu().double(), expected_out, atol=1e-2, rtol=1e-2)
    lse = lse.squeeze(3) if operator == "cudnn" else lse
    torch.testing.assert_close(lse[..., :5].cpu().double(), expected_lse, atol=1e-5, rtol=1e-5)
    assert (lse[..., 5:].cpu() == math.inf).all()  # what PyTorch's backward of efficient attention counts on
    (unasked, *_) = attend(operator, q, k, v, causal=causal, scale=0.3, lse=False)
    assert torch.equal(unasked.cpu(), out.cpu())


@pytest.mark.usefixtures("active")
@pytest.mark.parametrize("operator", ["efficient", "cudnn"])
def test_more_queries_than_keys_where_causal_is_top_left(operator: str) -> None:
    q, k, v = draw(6, 9), draw(2, 5), draw(2, 5)
    served = counts()[0]
    out, *_ = attend(operator, q, k, v, causal=True, scale=0.3)
    assert counts()[0] == served + 1
    expected, _ = exact(q, k, v, causal=True, scale=0.3)
    torch.testing.assert_close(out.cpu().double(), expected, atol=1e-2, rtol=1e-2)


ALLOWED = {name: getattr(SDPBackend, f"{name.upper()}_ATTENTION") for name in OPERATORS}


@pytest.mark.usefixtures("active")
@pytest.mark.parametrize(("head_dim", "backend"), [(32, b) for b in (*OPERATORS, "any")] + [(36, "flash")])
def test_scaled_dot_product_attention_is_served(head_dim: int, backend: str) -> None:
    """PyTorch pads head_dim = 36 before flash attention and takes the scale of 36."""
    q, k, v = draw(6, 5, head_dim), draw(2, 5, head_dim), draw(2, 5, head_dim)
    before, operator_calls = counts(), FAKE.fake_operator_calls()
    with contextlib.nullcontext() if backend == "any" else sdpa_kernel(ALLOWED[backend]):
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    assert counts() == (before[0] + 1, before[1])
    assert FAKE.fake_operator_calls() == operator_calls
    expected, _ = exact(q, k, v, causal=True, scale=head_dim**-0.5)
    torch.testing.assert_close(out.cpu().double(), expected, atol=1e-2, rtol=1e-2)


def test_sides_of_the_benchmark_run_who_they_are_named_after() -> None:
    q = draw(2, 5)

    def run(name: str) -> str:
        F.scaled_dot_product_attention(q, q, q)
        return name

    ran: dict[str, set[tuple[int, int]]] = {}

    def measure(call: Callable[[], str], times: int) -> float:
        served, operator_calls = counts()[0], FAKE.fake_operator_calls()
        name = call()
        ran.setdefault(name, set()).add((counts()[0] - served, FAKE.fake_operator_calls() - operator_calls))
        return 1.0

    sides: list[Side] = [ours(lambda: run(OURS)), *(peer(n, lambda n=n: run(n)) for n in OPERATORS)]
    alternate({side.name: side for side in sides}, measure)
    assert ran == {OURS: {(1, 0)}} | {name: {(0, 1)} for name in OPERATORS}


@pytest.mark.usefixtures("active")
def test_platform_device_and_stream_reach_the_library() -> None:
    q = draw(2, 5).to("cuda:3")
    FLASH(q, q, q)
    assert (STUB.stub_platform(), STUB.stub_device(), STUB.stub_stream()) == (runtime.PLATFORMS[PLATFORM], 3, 1003)


DECLINES: dict[str, tuple[tuple[str, ...], Callable[[str], Any], str]] = {
    "bias": (
        ("efficient", "cudnn"),
        lambda op: attend(op, *[draw(2, 5)] * 3, bias=draw(2, 5, 5)),
        "attn_mask",
    ),
    "dropout": (OPERATORS, lambda op: attend(op, *[draw(2, 5)] * 3, dropout_p=0.1), "dropout_p > 0"),
    "debug_mask": (
        ("flash", "cudnn"),
        lambda op: attend(op, *[draw(2, 5)] * 3, debug_mask=True),
        "return_debug_mask",
    ),
    "grad": (OPERATORS, lambda op: attend(op, draw(2, 5), draw(2, 5).requires_grad_(), draw(2, 5)), "requires grad"),
    "float32": (
        OPERATORS if PLATFORM == "cuda" else ("flash", "cudnn"),
        lambda op: attend(op, *[draw(2, 5, dtype=torch.float32)] * 3),
        "float16 or bfloat16",
    ),
    "mixed_dtypes": (
        OPERATORS,
        lambda op: attend(op, draw(2, 5), draw(2, 5), draw(2, 5, dtype=torch.float16)),
        "one dtype",
    ),
    "other_device": (OPERATORS, lambda op: attend(op, draw(2, 5), draw(2, 5), draw(2, 5).cpu()), "one device"),
    "head_dim_v": (("flash",), lambda op: attend(op, draw(2, 5), draw(2, 5), draw(2, 5, 16)), "head_dim of v"),
    "empty": (OPERATORS, lambda op: attend(op, draw(2, 5), draw(2, 0), draw(2, 0)), "a size is 0"),
    "rows_without_keys": (
        ("flash",),
        lambda op: attend(op, draw(2, 9), draw(2, 5), draw(2, 5), causal=True),
        "see no key",
    ),
    "no_kernel": (OPERATORS, lambda op: attend(op, *[draw(2, 5, 24)] * 3), "takes no head_dim = 24"),
}


@pytest.mark.usefixtures("active")
@pytest.mark.parametrize(("operator", "case"), [(op, case) for case in DECLINES for op in DECLINES[case][0]])
def test_a_declined_call_is_pytorchs_own(operator: str, case: str) -> None:
    _, call, reason = DECLINES[case]
    before = aotattn.torch.counters()
    kernel_calls = FAKE.fake_kernel_calls()
    results = call(operator)
    after = aotattn.torch.counters()
    assert (after.served, after.declined) == (before.served, before.declined + 1)
    assert FAKE.fake_kernel_calls() == kernel_calls + 1
    grown = [r for r, count in after.reasons.items() if count > before.reasons.get(r, 0)]
    assert len(grown) == 1
    assert reason in grown[0]
    assert operator == "flash" or FAKE.fake_with_bias() == (case == "bias")
    assert (results[0].detach().cpu() == FILL).all()
    restore_flash_attention_impl()
    assert forms(results) == forms(call(operator))


@pytest.mark.usefixtures("active")
def test_an_lse_that_pytorchs_own_kernel_leaves_out() -> None:
    assert attend("cudnn", *[draw(2, 5)] * 3, lse=False, dropout_p=0.1)[1] is None


@pytest.mark.usefixtures("active")
def test_gradients_matter_in_grad_mode_only() -> None:
    q = draw(2, 5).requires_grad_()
    served, declined = counts()
    with torch.no_grad():
        FLASH(q, q, q)
    with torch.inference_mode():
        FLASH(q, q, q)
    assert counts() == (served + 2, declined)
    FLASH(q, q, q)
    assert counts() == (served + 2, declined + 1)
    FLASH(*[q.detach()] * 3)  # grad mode, but nothing to derive
    assert counts() == (served + 3, declined + 1)


@pytest.mark.usefixtures("active")
def test_an_error_of_pytorchs_kernel_keeps_its_message() -> None:
    FAKE.fake_fail(b"CUDA out of memory. Tried to allocate 1 EiB")
    try:
        with pytest.raises(RuntimeError, match="CUDA out of memory"):
            FLASH(*[draw(2, 5)] * 3, 0.5)
    finally:
        FAKE.fake_fail(None)


def test_reasons_go_to_the_log_at_debug_level(caplog: pytest.LogCaptureFixture) -> None:
    q = draw(2, 5)
    with caplog.at_level(logging.DEBUG, "aotattn"):
        activate_flash_attention_impl("aotattn")
        for _ in range(5):
            FLASH(q, q, q, 0.25)
        assert [r.getMessage() for r in caplog.records] == ["left to PyTorch: dropout_p > 0"] * 5
    caplog.clear()
    with caplog.at_level(logging.INFO, "aotattn"):
        for _ in range(5):
            FLASH(q, q, q, 0.25)
    assert not caplog.records
    restore_flash_attention_impl()


def test_why_not() -> None:
    def why_not(*tensors: torch.Tensor, **options: Any) -> str | None:
        return aotattn.torch.why_not(*tensors, **options)

    q = draw(2, 5)
    before = counts()
    assert why_not(q, q, q) is None
    assert why_not(q, q, q, dropout_p=0.5) == "dropout_p > 0"
    assert why_not(q.cpu(), q.cpu(), q.cpu()) == "q, k and v must be on a GPU"
    assert "requires grad" in why_not(q, q, draw(2, 5).requires_grad_())
    assert "head_dim = 24" in why_not(*[draw(2, 5, 24)] * 3)
    f32 = [draw(2, 5, dtype=torch.float32)] * 3
    assert (why_not(*f32, backend=SDPBackend.EFFICIENT_ATTENTION) is None) == (PLATFORM == "hip")
    for name in ("flash", "cudnn"):
        assert "float16 or bfloat16" in why_not(*f32, backend=ALLOWED[name])
        with sdpa_kernel(ALLOWED[name]):  # PyTorch's rules choose it
            assert "float16 or bfloat16" in why_not(*f32)
    with sdpa_kernel(SDPBackend.MATH):
        assert "neither flash" in why_not(q, q, q)
    assert counts() == before


@pytest.mark.usefixtures("active")
def test_threads_share_the_counters() -> None:
    from concurrent.futures import ThreadPoolExecutor

    q = draw(2, 5)
    served, declined = counts()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: FLASH(q, q, q, 0.5 * (i % 2)), range(400)))
    assert counts() == (served + 200, declined + 200)


@pytest.mark.usefixtures("active")
@pytest.mark.parametrize("operator", OPERATORS)
def test_torch_compile_sees_the_same_results(operator: str) -> None:
    def sdpa(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).contiguous()

    q, k, v = (bshd(draw(4, 6, 32)) for _ in range(3))
    served = counts()[0]
    torch.compiler.reset()
    with sdpa_kernel(ALLOWED[operator]):
        compiled = torch.compile(sdpa, backend="aot_eager", fullgraph=True)(q, k, v)
        assert counts()[0] == served + 1
        torch.testing.assert_close(compiled.cpu(), sdpa(q, k, v).cpu())


def test_on_the_cpu_the_workspace_is_lent_to_the_emulated_device_too() -> None:
    emulator = Path(__file__).parents[2] / "build" / "emulator" / "libamdhip64.so"
    if not emulator.exists():
        pytest.skip(f"{emulator} is not built")
    hip = ctypes.CDLL(str(emulator))
    q = draw(2, 5).cpu()
    with aotattn.torch.Registration(str(emulator)):
        served = counts()[0]
        out = F.scaled_dot_product_attention(q, q, q)
        assert counts()[0] == served + 1  # the stub wants a workspace
    assert (STUB.stub_platform(), STUB.stub_device(), STUB.stub_stream()) == (runtime.PLATFORMS["hip"], 0, 0)
    expected, _ = exact(q, q, q, causal=False, scale=32**-0.5)
    torch.testing.assert_close(out.double(), expected, atol=1e-2, rtol=1e-2)
    for memory in (STUB.stub_workspace(), out.data_ptr()):
        assert hip.hipHostUnregister(ctypes.c_void_p(memory)) != 0  # nothing is lent any more
