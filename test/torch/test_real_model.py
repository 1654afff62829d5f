"""The library under a model's attention, on a GPU: same logits as PyTorch's own, every call served.

Weights are random, tokens are the bytes of TEXT. The rule of aotattn.reference: against a float64 run the library may
err at most twice as much as PyTorch's own kernel does in the same dtype.
"""

import contextlib
from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F
from aotattn.reference import judge
from torch import nn
from torch.nn.attention import SDPBackend, activate_flash_attention_impl, restore_flash_attention_impl, sdpa_kernel

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
    # what PyTorch and transformers warn of is theirs
    pytest.mark.filterwarnings("default"),
]

TEXT = """
It is a truth universally acknowledged, that a single man in possession of a good fortune, must be in want of a wife.
However little known the feelings or views of such a man may be on his first entering a neighbourhood, this truth is so
well fixed in the minds of the surrounding families, that he is considered as the rightful property of some one or other
of their daughters. "My dear Mr. Bennet," said his lady to him one day, "have you heard that Netherfield Park is let at
last?" Mr. Bennet replied that he had not. "But it is," returned she; "for Mrs. Long has just been here, and she told me
all about it." Mr. Bennet made no answer. "Do not you want to know who has taken it?" cried his wife impatiently.
"""
NUM_LAYERS = 4
VOCABULARY = 256
EPSILON = 1e-6  # the default depends on the dtype

DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}


class Block(nn.Module):
    """Grouped-query attention with rotary positions, then a gated feed-forward layer."""

    def __init__(self, width: int, heads_q: int, heads_k: int) -> None:
        super().__init__()
        self.heads_q, self.heads_k, self.head_dim = heads_q, heads_k, width // heads_q
        self.qkv = nn.Linear(width, (heads_q + 2 * heads_k) * self.head_dim, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.up, self.gate = nn.Linear(width, 2 * width, bias=False), nn.Linear(width, 2 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)
        self.attention_norm, self.feed_norm = nn.RMSNorm(width, EPSILON), nn.RMSNorm(width, EPSILON)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = self.qkv(self.attention_norm(x)).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
        q, k, v = heads.split((self.heads_q, self.heads_k, self.heads_k), 1)
        attended = F.scaled_dot_product_attention(rotate(q), rotate(k), v, is_causal=True, enable_gqa=True)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        hidden = self.feed_norm(x)
        return x + self.down(F.silu(self.gate(hidden)) * self.up(hidden))


def rotate(x: torch.Tensor) -> torch.Tensor:
    half = x.shape[-1] // 2
    rates = 10000 ** -(torch.arange(half, device=x.device, dtype=torch.float64) / half)
    angles = torch.arange(x.shape[2], device=x.device)[:, None] * rates
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x.split(half, -1)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)


class Decoder(nn.Module):
    def __init__(self, head_dim: int) -> None:
        super().__init__()
        width = 8 * head_dim
        self.embed = nn.Embedding(VOCABULARY, width)
        self.blocks = nn.Sequential(*(Block(width, 8, 2) for _ in range(NUM_LAYERS)))
        self.head = nn.Sequential(nn.RMSNorm(width, EPSILON), nn.Linear(width, VOCABULARY, bias=False))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.head(self.blocks(self.embed(tokens)))
        return logits


class Llama(nn.Module):
    """The same size out of transformers."""

    def __init__(self, head_dim: int) -> None:
        super().__init__()
        transformers = pytest.importorskip("transformers")
        config = transformers.LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=8 * head_dim,
            intermediate_size=16 * head_dim,
            num_hidden_layers=NUM_LAYERS,
            num_attention_heads=8,
            num_key_value_heads=2,
            attn_implementation="sdpa",
        )
        self.model = transformers.LlamaForCausalLM(config)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.model(tokens, use_cache=False).logits
        return logits


@contextlib.contextmanager
def aotattn_active() -> Iterator[Callable[[], tuple[int, int]]]:
    """Yields a function that says how many calls were served and declined since."""
    import aotattn.torch

    activate_flash_attention_impl("aotattn")
    before = aotattn.torch.counters()

    def since() -> tuple[int, int]:
        now = aotattn.torch.counters()
        return now.served - before.served, now.declined - before.declined

    try:
        yield since
    finally:
        restore_flash_attention_impl()


def text_tokens() -> torch.Tensor:
    """Two rows of a length off every tile."""
    data = torch.frombuffer(bytearray(TEXT.strip().encode()), dtype=torch.uint8).long().cuda()
    return torch.stack((data[:-1], data[1:]))[:, :613]


def assert_as_good(name: str, dtype: str, actual: torch.Tensor, exact: torch.Tensor, baseline: torch.Tensor) -> None:
    for check in judge(name, dtype, actual, exact, baseline):
        assert check.passed, check


def draw(*size: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.randn(*size, dtype=dtype, device="cuda")


def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)


@pytest.fixture(autouse=True)
def _same_weights_each_time() -> None:
    torch.manual_seed(1813)


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
@pytest.mark.parametrize("head_dim", [64, 128, 80])
@pytest.mark.parametrize("model_type", [Decoder, Llama])
@torch.no_grad()
def test_logits_of_a_model(model_type: type[nn.Module], head_dim: int, dtype: str) -> None:
    model, tokens = model_type(head_dim).cuda().to(DTYPES[dtype]).eval(), text_tokens()
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        baseline = model(tokens)
        with aotattn_active() as since:
            actual = model(tokens)
            assert since() == (NUM_LAYERS, 0)
    with sdpa_kernel(SDPBackend.MATH):
        exact = model.double()(tokens)
    assert_as_good("logits", dtype, actual, exact, baseline)


@torch.no_grad()
def test_one_query_as_in_decoding() -> None:
    q, k, v = draw(2, 8, 1, 64), draw(2, 2, 300, 64), draw(2, 2, 300, 64)

    def decode() -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)

    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        baseline = decode()
        with aotattn_active() as since:
            actual = decode()
            assert since() == (1, 0)
    exact = F.scaled_dot_product_attention(q.double(), k.double(), v.double(), enable_gqa=True)
    assert_as_good("out", "bf16", actual, exact, baseline)


BACKENDS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
}


@pytest.mark.parametrize("backend", ["any", *BACKENDS])
@pytest.mark.parametrize(
    ("dtype", "head_dim", "head_dim_v"),
    [("bf16", 64, 64), ("f16", 128, 128), ("bf16", 512, 512), ("bf16", 128, 64)],
)
@torch.no_grad()
def test_plain_attention_is_served_whichever_backend_pytorch_picks(
    dtype: str, head_dim: int, head_dim_v: int, backend: str
) -> None:
    wide = head_dim > 256
    if (backend == "cudnn" and wide) or (backend == "flash" and (wide or head_dim != head_dim_v)):
        pytest.skip(f"PyTorch's rules keep {backend} attention from it")
    q, k, v = (draw(2, 8, 300, d, dtype=DTYPES[dtype]) for d in (head_dim, head_dim, head_dim_v))
    for causal in (False, True):
        exact = F.scaled_dot_product_attention(q.double(), k.double(), v.double(), is_causal=causal)
        with sdpa_kernel(SDPBackend.MATH):
            baseline = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        with aotattn_active() as since, contextlib.ExitStack() as stack:
            if backend != "any":
                stack.enter_context(sdpa_kernel(BACKENDS[backend]))
            actual = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
            assert since() == (1, 0)
        assert_as_good("out", dtype, actual, exact, baseline)


@pytest.mark.parametrize("seqlen_q", [300, 320, 1])
@pytest.mark.parametrize("operator", BACKENDS)
@torch.no_grad()
def test_results_have_the_forms_of_pytorchs_own(operator: str, seqlen_q: int) -> None:
    call = getattr(torch.ops.aten, f"_scaled_dot_product_{operator}_attention")
    arguments = (0.0, True) if operator == "flash" else (None, True, 0.0, True)
    packed = draw(2, seqlen_q, 3, 8, 64)  # q is a third of a row
    for q, k, v in (
        [draw(2, 8, seqlen_q, 64) for _ in range(3)],
        [draw(2, seqlen_q, 8, 64).transpose(1, 2) for _ in range(3)],
        [t.transpose(1, 2) for t in packed.unbind(2)],
        [draw(2, 8, seqlen_q, 64), draw(2, 8, 400, 64), draw(2, 8, 400, 64)],  # is causal aligned alike?
    ):
        if operator == "cudnn" and k.shape[2] == 1:
            continue  # PyTorch's rules keep cuDNN attention from it
        own = call(q, k, v, *arguments)
        with aotattn_active() as since:
            ours = call(q, k, v, *arguments)
            assert since() == (1, 0)
        for a, b in zip(ours, own, strict=True):
            if isinstance(b, torch.Tensor):
                assert (a.shape, a.stride(), a.dtype) == (b.shape, b.stride(), b.dtype)
                assert a.device == b.device or b.dim() == 0  # PyTorch's own unused seed may be on the CPU
            else:
                assert a == b
        torch.testing.assert_close(ours[0], own[0], atol=2e-2, rtol=2e-2)
        torch.testing.assert_close(ours[1], own[1], atol=1e-3, rtol=1e-3)  # lse, natural log; +inf in padding


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_declined_call_is_pytorchs_own(backend: str) -> None:
    q, k, v = (draw(2, 8, 300, 64) for _ in range(3))
    leaf = q.clone().requires_grad_()
    with sdpa_kernel(BACKENDS[backend]):
        own = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        with aotattn_active() as since:
            ours = F.scaled_dot_product_attention(leaf, k, v, is_causal=True)
            ours.sum().backward()
            F.scaled_dot_product_attention(q, k, v, dropout_p=0.125)
            assert since() == (0, 2)
            if backend != "flash":
                mask = draw(300, 300)
                masked = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
                assert since() == (0, 3)
        if backend != "flash":
            assert torch.equal(masked, F.scaled_dot_product_attention(q, k, v, attn_mask=mask))
    assert torch.equal(ours, own)
    assert leaf.grad is not None
    assert leaf.grad.isfinite().all()


@pytest.mark.parametrize("backend", BACKENDS)
@torch.no_grad()
def test_torch_compile(backend: str) -> None:
    q, k, v = draw(2, 8, 300, 64), draw(2, 8, 300, 64), draw(2, 8, 300, 64)
    torch.compiler.reset()
    with sdpa_kernel(BACKENDS[backend]), aotattn_active() as since:
        eager = attend(q, k, v)
        compiled = torch.compile(attend, fullgraph=True)(q, k, v)
        assert since() == (2, 0)
    assert torch.equal(eager, compiled)


@pytest.mark.parametrize("backend", BACKENDS)
def test_compiled_training_takes_our_forward_and_pytorchs_backward(backend: str) -> None:
    """AOTAutograd runs the forward without grad mode, so it is served; PyTorch's backward must be able to go on."""
    heads_k = 8 if backend == "efficient" else 2  # PyTorch's rules keep grouped heads from it
    inputs = [draw(2, 8, 300, 64), draw(2, heads_k, 300, 64), draw(2, heads_k, 300, 64)]
    torch.compiler.reset()
    dout = draw(2, 8, 300, 64)

    def gradients(function: Callable[..., torch.Tensor], dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
        leaves = [t.to(dtype).requires_grad_() for t in inputs]
        return torch.autograd.grad(function(*leaves), leaves, dout.to(dtype))

    with sdpa_kernel(BACKENDS[backend]):
        baseline = gradients(attend, torch.bfloat16)
        with aotattn_active() as since:
            actual = gradients(torch.compile(attend, backend="aot_eager", fullgraph=True), torch.bfloat16)
            assert since() == (1, 0)
    with sdpa_kernel(SDPBackend.MATH):
        exact = gradients(attend, torch.float64)
    for name, a, e, b in zip(("dq", "dk", "dv"), actual, exact, baseline, strict=True):
        assert_as_good(name, "bf16", a, e, b)


@torch.no_grad()
def test_cuda_graph_capture_and_replay() -> None:
    q, k, v = draw(2, 8, 300, 64), draw(2, 2, 300, 64), draw(2, 2, 300, 64)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION), aotattn_active() as since:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):  # the first call: the kernel is loaded while capturing
            out = attend(q, k, v)
        assert since() == (1, 0)
        for _ in range(3):
            for tensor in (q, k, v):
                tensor.normal_()
            out.fill_(torch.nan)
            graph.replay()
            assert torch.equal(out, attend(q, k, v))


@torch.no_grad()
def test_streams_and_threads() -> None:
    from concurrent.futures import ThreadPoolExecutor

    q, k, v = draw(1, 8, 300, 64), draw(1, 2, 300, 64), draw(1, 2, 300, 64)

    def work(_: int) -> torch.Tensor:
        with torch.cuda.stream(torch.cuda.Stream()), torch.no_grad():
            out = attend(q, k, v)
            torch.cuda.current_stream().synchronize()
        return out

    torch.cuda.synchronize()
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION), aotattn_active() as since:
        with ThreadPoolExecutor(4) as pool:
            results = list(pool.map(work, range(64)))
        assert since() == (64, 0)
    assert all(torch.equal(r, results[0]) for r in results)
