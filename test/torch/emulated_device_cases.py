"""The binding on tensors of the CPU, served by the emulated gfx950. Run by test_emulated_device.py in a process of its
own, in which fresh memory is poison."""

import contextlib
import ctypes
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import aotattn.torch
import pytest
import torch
import torch.nn.functional as F
from aotattn.bench.against import sdpa
from aotattn.bench.cases import Case
from aotattn.bench.inputs import draw
from aotattn.device import EmulatedDevice, open_device
from aotattn.reference import Mask, exact, judge, plain
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention import SDPBackend, sdpa_kernel

SEED = 1
ATTENTION = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


@pytest.fixture
def active() -> Iterator[None]:
    with aotattn.torch.use_emulated_device():
        yield


@pytest.fixture(scope="module")
def emulator() -> EmulatedDevice:
    device = open_device("gfx950")
    assert isinstance(device, EmulatedDevice)
    return device


@contextlib.contextmanager
def counted(served: int, declined: int = 0, reason: str = "") -> Iterator[None]:
    """So many calls are served and declined inside, each decline for a reason with these words."""
    before = aotattn.torch.counters()
    yield
    after = aotattn.torch.counters()
    assert (after.served - before.served, after.declined - before.declined) == (served, declined), after.reasons
    grown = [r for r, count in after.reasons.items() if count > before.reasons.get(r, 0)]
    assert all(reason in r for r in grown), grown


def inputs(case: Case) -> Tensors:
    tensors = draw(case, "cpu", SEED)
    return tensors["q"].view, tensors["k"].view, tensors["v"].view


def some(*, dtype: torch.dtype = torch.bfloat16, heads_k: int = 2, head_dim: int = 32) -> Tensors:
    sizes = ((2, 2, 40, head_dim), (2, heads_k, 50, head_dim), (2, heads_k, 50, head_dim))
    q, k, v = (torch.randn(*size, dtype=dtype) for size in sizes)
    return q, k, v


def call(case: Case, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
    return ATTENTION(q, k, v, is_causal=case.mask == "causal", scale=case.sm_scale)


def forms(results: Any) -> list[Any]:
    return [(tuple(r.shape), r.stride(), r.dtype, r.device) for r in results]


def assert_as_good(case: Case, tensors: Tensors, out: torch.Tensor, lse: torch.Tensor | None = None) -> None:
    mask = Mask(case.mask)
    expected = exact(*tensors, sm_scale=case.sm_scale, mask=mask)
    baseline = plain(*tensors, sm_scale=case.sm_scale, mask=mask)
    checks = judge("out", case.dtype, out, expected[0], baseline[0])
    if lse is not None:
        checks += judge("lse", "f32", lse, expected[1], baseline[1])
    assert [check for check in checks if not check.passed] == []


def test_fresh_memory_is_poison() -> None:
    assert (torch.empty(1 << 16) > 1e38).all()


def test_nothing_is_served_unless_asked_for() -> None:
    assert aotattn.torch.why_not(*some()) == "q, k and v must be on a GPU"
    with counted(0):
        F.scaled_dot_product_attention(*some())


PLAIN = Case(batch=2, heads_q=4, heads_k=2, seqlen_q=70, seqlen_k=90)
CASES = [
    *(
        PLAIN.but(dtype=dtype, mask=mask, layout=layout)
        for dtype in ("f32", "f16", "bf16")
        for mask in ("none", "causal")
        for layout in ("bhsd", "bshd", "sbhd", "packed", "odd", "broadcast")
    ),
    *(
        Case(dtype=dtype, heads_q=3, heads_k=1, seqlen_q=seqlen_q, seqlen_k=seqlen_k, head_dim=head_dim, mask="causal")
        for dtype in ("f32", "bf16")
        for seqlen_q, seqlen_k, head_dim in ((1, 65, 32), (65, 1, 33), (130, 129, 128), (64, 64, 250))
    ),
    Case(dtype="f16", batch=3, seqlen_q=33, head_dim=1, sm_scale=-1.5),
    Case(dtype="bf16", heads_q=2, seqlen_q=40, head_dim=264),
]


@pytest.mark.usefixtures("active")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_values_and_forms(case: Case) -> None:
    tensors = draw(case, "cpu", SEED)
    q, k, v = (tensors[name].view for name in "qkv")
    before = [tensors[name].storage.clone() for name in "qkv"]
    with counted(1):
        out, lse = call(case, q, k, v)
    assert_as_good(case, (q, k, v), out, lse)
    assert all(torch.equal(a.nan_to_num(), tensors[n].storage.nan_to_num()) for a, n in zip(before, "qkv", strict=True))
    with FakeTensorMode() as fake:
        promised = call(case, *(fake.from_tensor(t) for t in (q, k, v)))
    assert forms((out, lse)) == forms(promised)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION), counted(1):
        assert torch.equal(sdpa(case, q, k, v)(), out)


def test_forms_are_those_of_pytorchs_own_kernel() -> None:
    for layout in ("bhsd", "bshd", "sbhd", "packed", "odd"):
        for heads, seqlen in ((4, 9), (1, 9), (4, 1)):
            case = Case(batch=2, heads_q=heads, seqlen_q=seqlen, head_dim=16, layout=layout)
            q, k, v = inputs(case)
            own = call(case, q, k, v)
            with aotattn.torch.use_emulated_device(), counted(1):
                ours = call(case, q, k, v)
            assert forms(ours) == forms(own)


PACKED: dict[str, Callable[[], Tensors]] = {
    "projection": lambda: tuple(t.transpose(1, 2) for t in torch.randn(2, 70, 3, 4, 64).unbind(2)),  # type: ignore
    "heads_of_one": lambda: torch.randn(2, 12, 70, 64).split(4, 1),  # type: ignore[dict-item]
    "k_is_v": lambda: (torch.randn(2, 4, 70, 64), *[torch.randn(2, 4, 90, 64)] * 2),
    "all_one": lambda: (torch.randn(2, 4, 70, 64),) * 3,
    "shifted": lambda: (lambda t: (t[:, :, :60], t[:, :, 5:65], t[:, :, 10:]))(torch.randn(2, 4, 70, 64)),
    "cache": lambda: (torch.randn(1, 4, 3, 64), *(t[:1, :, :50] for t in torch.randn(2, 2, 4, 99, 64).unbind())),
}


@pytest.mark.usefixtures("active")
@pytest.mark.parametrize("name", PACKED)
def test_tensors_that_share_memory(name: str) -> None:
    q, k, v = PACKED[name]()
    case = Case(dtype="f32", mask="causal")
    with counted(1):
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert_as_good(case, (q, k, v), out)


def test_remove_brings_back_pytorchs_own() -> None:
    q, k, v = some()
    own = ATTENTION(q, k, v)
    first = aotattn.torch.use_emulated_device()
    second = aotattn.torch.use_emulated_device()
    with counted(1):
        ours = ATTENTION(q, k, v)
    first.remove()
    with counted(1):
        assert torch.equal(ATTENTION(q, k, v)[0], ours[0])
    second.remove()
    second.remove()
    with counted(0):
        assert all(torch.equal(a, b) for a, b in zip(ATTENTION(q, k, v), own, strict=True))


def test_it_ends_with_its_block_also_by_an_exception() -> None:
    with pytest.raises(ZeroDivisionError), aotattn.torch.use_emulated_device():
        raise ZeroDivisionError
    with counted(0):
        ATTENTION(*some())


DECLINES: dict[str, tuple[Callable[[], Any], str]] = {
    "float_mask": (
        lambda: F.scaled_dot_product_attention(*some(), attn_mask=torch.randn(40, 50).bfloat16()),
        "attn_mask",
    ),
    "bool_mask": (
        lambda: F.scaled_dot_product_attention(*some(), attn_mask=torch.ones(40, 50).tril() > 0),
        "attn_mask",
    ),
    "f64": (lambda: F.scaled_dot_product_attention(*some(dtype=torch.float64)), "float16, bfloat16 or float32"),
    "grad": (
        lambda: F.scaled_dot_product_attention(*(t.requires_grad_() for t in some())).detach(),
        "requires grad",
    ),
    "wide_head": (lambda: F.scaled_dot_product_attention(*some(head_dim=520)), "largest head_dim is 512"),
    "last_stride": (lambda: ATTENTION(*(t[..., ::2] for t in some()))[0].nan_to_num(), "last stride must be 1"),
    "infinite_scale": (lambda: F.scaled_dot_product_attention(*some(), scale=torch.inf).nan_to_num(), "not finite"),
}


@pytest.mark.parametrize("name", DECLINES)
def test_a_declined_call_is_pytorchs_own(name: str) -> None:
    decline, reason = DECLINES[name]
    torch.manual_seed(SEED)
    own = decline()
    torch.manual_seed(SEED)
    with aotattn.torch.use_emulated_device(), counted(0, 1, reason):
        assert torch.equal(decline(), own)


ERRORS: dict[str, Callable[[], Any]] = {
    "dropout": lambda: ATTENTION(*some(), 0.5),
    "head_dim_v": lambda: ATTENTION(*some()[:2], torch.randn(2, 2, 50, 16).bfloat16()),
    "rank": lambda: ATTENTION(*(t[0] for t in some())),
}


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_is_pytorchs_own(name: str) -> None:
    with pytest.raises(RuntimeError) as own:
        ERRORS[name]()
    with aotattn.torch.use_emulated_device(), counted(0, 1), pytest.raises(RuntimeError) as ours:
        ERRORS[name]()
    assert str(own.value).splitlines()[0] in str(ours.value)


def test_gradients_are_pytorchs_own() -> None:
    inputs = some(dtype=torch.float32)

    def gradients() -> tuple[torch.Tensor, ...]:
        leaves = [t.clone().requires_grad_() for t in inputs]
        return torch.autograd.grad(F.scaled_dot_product_attention(*leaves).square().sum(), leaves)

    own = gradients()
    with aotattn.torch.use_emulated_device(), counted(0, 1, "requires grad"):
        assert all(torch.equal(a, b) for a, b in zip(gradients(), own, strict=True))


@pytest.mark.usefixtures("active")
def test_gradients_matter_in_grad_mode_only() -> None:
    q, k, v = some()
    with counted(3):
        F.scaled_dot_product_attention(q, k, v)
        with torch.no_grad():
            F.scaled_dot_product_attention(q.requires_grad_(), k, v)
        with torch.inference_mode():
            F.scaled_dot_product_attention(q, k, v)


@pytest.mark.usefixtures("active")
def test_a_fault_of_the_device_leaves_the_call_to_pytorch(emulator: EmulatedDevice) -> None:
    q, k, v = some()
    emulator.set("limit", "10")  # instructions of a workgroup
    emulator.set("print", "0")
    try:
        with counted(0, 1, "hipModuleLaunchKernel failed with hipErrorLaunchFailure"):
            out = F.scaled_dot_product_attention(q, k, v)
        assert "more instructions" in emulator.report()
    finally:
        emulator.set("limit", str(1 << 40))
        emulator.set("print", "1")
    with counted(1):
        F.scaled_dot_product_attention(q, k, v)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        own = F.scaled_dot_product_attention(q.requires_grad_(), k, v)
    assert torch.equal(out, own)


@pytest.mark.usefixtures("active")
def test_memory_that_the_device_refuses_leaves_the_call_to_pytorch(emulator: EmulatedDevice) -> None:
    q, k, v = some()
    assert emulator.hip.hipHostRegister(ctypes.c_void_p(k.data_ptr()), ctypes.c_size_t(64), 0) == 0
    with counted(0, 1, "cannot reach the memory"):
        F.scaled_dot_product_attention(q, k, v)
    assert emulator.hip.hipHostUnregister(ctypes.c_void_p(k.data_ptr())) == 0
    with counted(1):
        F.scaled_dot_product_attention(q, k, v)


@pytest.mark.usefixtures("active")
def test_after_a_call_no_memory_is_lent(emulator: EmulatedDevice) -> None:
    q, k, v = some()
    out, lse = ATTENTION(q, k, v)
    for tensor in (q, k, v, out, lse):
        assert emulator.hip.hipHostUnregister(ctypes.c_void_p(tensor.data_ptr())) != 0


@pytest.mark.usefixtures("active")
def test_threads_with_tensors_that_share_memory() -> None:
    x = torch.randn(1, 80, 6, 2, 64)
    views = [[t.transpose(1, 2) for t in x[:, :, i : i + 3].unbind(2)] for i in range(4)]
    alone = [F.scaled_dot_product_attention(*v) for v in views]

    def work(i: int) -> torch.Tensor:
        return F.scaled_dot_product_attention(*views[i % 4], dropout_p=0.0, attn_mask=None if i % 3 else mask)

    mask = torch.zeros(80, 80)
    with counted(32, 16, "attn_mask"), ThreadPoolExecutor(6) as pool:
        results = list(pool.map(work, range(48)))
    assert all(torch.equal(results[i], alone[i % 4]) for i in range(48) if i % 3)


class Attended(torch.utils.data.Dataset[torch.Tensor]):
    """Items that take attention to make."""

    def __init__(self, q: torch.Tensor) -> None:
        self.q = q

    def __len__(self) -> int:
        return len(self.q)

    def __getitem__(self, index: int) -> torch.Tensor:
        before = aotattn.torch.counters().served
        out = F.scaled_dot_product_attention(*[self.q[index : index + 1]] * 3)
        assert aotattn.torch.counters().served == before + 1
        return out[0]


@pytest.mark.usefixtures("active")
def test_processes_that_fork_while_another_thread_attends() -> None:
    """The children find no lock held and no memory lent."""
    q = torch.randn(6, 2, 70, 64)
    expected = F.scaled_dot_product_attention(q, q, q)
    stop = threading.Event()

    def attend_on() -> None:
        while not stop.is_set():
            F.scaled_dot_product_attention(q, q, q)

    thread = threading.Thread(target=attend_on)
    thread.start()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads, which is what is tested
            for _ in range(3):
                loader = torch.utils.data.DataLoader(
                    Attended(q), num_workers=2, batch_size=3, timeout=60, multiprocessing_context="fork"
                )
                assert torch.equal(torch.cat(list(loader)), expected)
    finally:
        stop.set()
        thread.join()


@pytest.mark.usefixtures("active")
def test_torch_compile() -> None:
    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q * 2, k, v, is_causal=True, enable_gqa=True).transpose(1, 2) + 1

    case = Case(dtype="f32", heads_q=4, heads_k=2, seqlen_q=70, seqlen_k=90, layout="bshd")
    q, k, v = inputs(case)
    torch.compiler.reset()
    with counted(2), torch.no_grad():
        eager = attend(q, k, v)
        compiled = torch.compile(attend, backend="aot_eager", fullgraph=True)(q, k, v)
    assert torch.equal(compiled, eager)


def test_compiled_training_takes_our_forward_and_pytorchs_backward() -> None:
    """AOTAutograd runs the forward without grad mode, so it is served; PyTorch's backward must be able to go on."""
    case = Case(dtype="f32", batch=2, heads_q=4, seqlen_q=70, seqlen_k=90, layout="bshd")
    inputs_, dout = inputs(case), torch.randn(2, 4, 70, 64)

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def gradients(function: Callable[..., torch.Tensor], dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
        leaves = [t.to(dtype).requires_grad_() for t in inputs_]
        return torch.autograd.grad(function(*leaves), leaves, dout.to(dtype))

    baseline = gradients(attend, torch.float32)
    torch.compiler.reset()
    with aotattn.torch.use_emulated_device(), counted(1):
        actual = gradients(torch.compile(attend, backend="aot_eager", fullgraph=True), torch.float32)
    expected = gradients(attend, torch.float64)
    for name, a, e, b in zip(("dq", "dk", "dv"), actual, expected, baseline, strict=True):
        assert all(check.passed for check in judge(name, "f32", a, e, b)), name


@pytest.mark.usefixtures("active")
def test_why_not_answers_without_running() -> None:
    q, k, v = some()
    with counted(0):
        assert aotattn.torch.why_not(q, k, v, is_causal=True) is None
        assert "neither flash" in str(aotattn.torch.why_not(q, k, v, dropout_p=0.5))  # PyTorch's rules choose math
        chosen = {"backend": SDPBackend.FLASH_ATTENTION}
        assert aotattn.torch.why_not(q, k, v, dropout_p=0.5, **chosen) == "dropout_p > 0"
        assert "requires grad" in str(aotattn.torch.why_not(q, k, v.requires_grad_()))
        assert "largest head_dim" in str(aotattn.torch.why_not(*some(head_dim=520)))
