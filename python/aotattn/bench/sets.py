"""The sets of cases that tests, verify, bench and tuner share.

quick    small shapes, every feature once: seconds even on an emulator
grid     sizes off the tile grid, every bucket and dtype, layouts, GQA, windows: for a GPU
pairs    of quick and grid what shows every pair of values: a minute or two on an emulator
handed   the acceptance cases from the field that one dense forward pass can show, by their ids
speed    what `aotattn bench` measures by default
"""

from collections.abc import Callable, Iterator
from itertools import chain, combinations, product

from ..describe import UserError
from ..ops.attn_fwd import HEAD_DIMS
from .cases import LAYOUTS, Case

DTYPES = ("f16", "bf16", "f32")
LENGTHS = (1, 17, 63, 64, 65, 127, 128, 129, 1000, 1025)  # around the tiles, and far past them
ODD_HEAD_DIMS = (1, 3, 8, 17, 33, 40, 72, 100, 113, 144, 191, 200, 320, 500)
UNEQUAL_HEAD_DIMS = ((128, 64), (64, 128), (192, 128), (128, 144), (40, 200), (16, 512), (512, 16), (5, 7))
PAIRS_BELOW_FLOPS = 3e8  # of a case in `pairs`: a second on an emulator
MASKS: tuple[dict[str, str | int], ...] = (
    {"mask": "none"},
    {"mask": "causal"},
    {"mask": "causal", "alignment": "bottom_right"},
    {"mask": "window", "window_left": 40, "window_right": 0},
    {"mask": "window", "window_left": 20, "window_right": 70, "alignment": "bottom_right"},
)


def _with(case: Case, values: dict[str, str | int]) -> Case:
    return case.but(**values)


def quick() -> Iterator[Case]:
    for dtype, mask in product(DTYPES, MASKS):
        yield _with(Case(dtype=dtype, heads_q=2, heads_k=1, seqlen_q=65, seqlen_k=97, head_dim=32), mask)
    for seqlen_q, seqlen_k in ((1, 1), (1, 130), (63, 64), (128, 17), (129, 129)):
        yield Case(seqlen_q=seqlen_q, seqlen_k=seqlen_k, mask="causal", alignment="bottom_right")
    for head_dim in (16, 48, 96, 128, 256, 512, 33):
        yield Case(dtype="f16", seqlen_q=33, seqlen_k=40, head_dim=head_dim)
    yield Case(heads_q=4, heads_k=2, batch=2, seqlen_q=40, head_dim=64, head_dim_v=32, layout="bshd")
    yield Case(batch=2, heads_q=2, seqlen_q=40, layout="broadcast", mask="causal")
    yield Case(seqlen_q=40, head_dim=32, layout="odd")
    for layout, mask in product(LAYOUTS, MASKS[3:]):
        yield _with(Case(batch=2, heads_q=2, heads_k=1, seqlen_q=40, seqlen_k=60, head_dim=32, layout=layout), mask)
    yield Case(seqlen_q=40, head_dim=32, lse=False)
    yield Case(seqlen_q=20, seqlen_k=0, head_dim=32)
    yield Case(seqlen_q=0, seqlen_k=20, head_dim=32)
    yield Case(seqlen_q=40, seqlen_k=30, sm_scale=-0.5, head_dim=32)


def grid() -> Iterator[Case]:
    yield from _head_dims()
    yield from _lengths()
    yield from _heads()
    for layout, dtype, mask in product(LAYOUTS, DTYPES, MASKS[:3]):
        shape = Case(batch=2, heads_q=6, heads_k=3, seqlen_q=150, seqlen_k=203, head_dim=64, dtype=dtype, layout=layout)
        yield _with(shape, mask)
    yield from _windows()
    yield from _scalars()
    for head_dim, mask in product((64, 128, 256, 512), MASKS):  # enough tiles to fill the device several times
        yield _with(Case(batch=2, heads_q=16, heads_k=4, seqlen_q=4000, head_dim=head_dim), mask)
    yield Case(heads_q=2, seqlen_q=8192, mask="causal", head_dim=128)


def pairs() -> Iterator[Case]:
    """The cases of quick and grid, cheapest first, that show two values together which none before them showed."""
    seen: set[tuple[tuple[str, object], ...]] = set()
    for case in sorted(_once(chain(quick(), grid())), key=Case.flops):
        values = {name: getattr(case, name) for name in ("dtype", "layout", "inputs", "lse", "head_dim", "seqlen_q")}
        values["mask"] = (case.mask, case.alignment, case.window_left, case.window_right)
        values["group"] = case.heads_q // case.heads_k
        values["unequal"] = case.head_dim != case.head_dim_v
        shown = set(combinations(values.items(), 2))
        if case.flops() < PAIRS_BELOW_FLOPS and shown - seen:
            seen |= shown
            yield case


def _head_dims() -> Iterator[Case]:
    """Every bucket and what is padded to one."""
    for head_dim, dtype, mask in product((*HEAD_DIMS, *ODD_HEAD_DIMS), DTYPES, MASKS[:2]):
        yield _with(Case(dtype=dtype, batch=2, heads_q=3, seqlen_q=129, seqlen_k=200, head_dim=head_dim), mask)
    for (head_dim, head_dim_v), dtype, mask in product(UNEQUAL_HEAD_DIMS, DTYPES, MASKS[:3]):
        shape = Case(dtype=dtype, batch=2, heads_q=2, seqlen_q=140, head_dim=head_dim, head_dim_v=head_dim_v)
        yield _with(shape, mask)


def _lengths() -> Iterator[Case]:
    """Each length of queries with five of keys, under each mask."""
    for (at, seqlen_q), step, mask in product(enumerate(LENGTHS), (0, 1, 3, 6, 9), MASKS):
        seqlen_k = LENGTHS[(at + step) % len(LENGTHS)]
        for head_dim in (64, 128):
            yield _with(Case(batch=2, heads_q=2, seqlen_q=seqlen_q, seqlen_k=seqlen_k, head_dim=head_dim), mask)


def _heads() -> Iterator[Case]:
    for (heads_q, heads_k), batch, mask in product(((8, 1), (8, 2), (6, 3), (5, 5), (64, 8)), (0, 1, 3), MASKS[:3]):
        yield _with(Case(batch=batch, heads_q=heads_q, heads_k=heads_k, seqlen_q=70, seqlen_k=130), mask)
    yield Case(batch=70000, seqlen_q=16, seqlen_k=20)  # more than a grid's second axis holds
    yield Case(batch=1000, heads_q=70, heads_k=7, seqlen_q=1, seqlen_k=33)
    for seqlen_k in (1, 100, 1025, 8192):  # decoding
        yield Case(batch=3, heads_q=16, heads_k=2, seqlen_q=1, seqlen_k=seqlen_k, head_dim=128)


def _windows() -> Iterator[Case]:
    bounds = ((0, 0), (0, -1), (-1, 0), (1, 1), (63, 0), (64, 64), (0, 127), (128, 0), (-1, 5), (1000, 1000), (-1, -1))
    for (left, right), (seqlen_q, seqlen_k), alignment in product(
        bounds, ((300, 300), (300, 200), (200, 300)), ("top_left", "bottom_right")
    ):
        yield Case(
            heads_q=2,
            seqlen_q=seqlen_q,
            seqlen_k=seqlen_k,
            mask="window",
            alignment=alignment,
            window_left=left,
            window_right=right,
        )


def _scalars() -> Iterator[Case]:
    """Scales, no keys, no queries, no log-sum-exp, inputs far from N(0, 1)."""
    for dtype, mask in product(DTYPES, MASKS):
        shape = _with(Case(dtype=dtype, heads_q=2, seqlen_q=100, seqlen_k=120), mask)
        yield from (shape.but(sm_scale=scale) for scale in (0.0, -0.3, 2.0))
        yield from (shape.but(inputs=inputs) for inputs in ("normal3", "large_dots", "one_hot_v", "zero_q"))
        yield from (shape.but(seqlen_k=0), shape.but(seqlen_q=0), shape.but(lse=False))


def speed() -> Iterator[Case]:
    """bf16, batch * seqlen = 16k, heads * head_dim = 2048."""
    for head_dim, log2, mask in product((64, 128, 256, 512), range(10, 15), ("none", "causal")):
        seqlen = 1 << log2
        yield Case(batch=16384 // seqlen, heads_q=2048 // head_dim, seqlen_q=seqlen, head_dim=head_dim, mask=mask)


def _each(case: Case, **choices: tuple[str | int, ...]) -> list[Case]:
    """The case with every combination of the choices."""
    return [_with(case, dict(zip(choices, values, strict=True))) for values in product(*choices.values())]


def _lengths_of(cases: list[Case], *lengths: tuple[int, int]) -> list[Case]:
    return [c.but(seqlen_q=q, seqlen_k=k) for c in cases for q, k in lengths]


BOTH = ("top_left", "bottom_right")


def _gpt_oss() -> list[Case]:
    """Each sequence of the packed batch by itself."""
    shape = Case(heads_q=64, heads_k=8, mask="window", window_right=0, alignment="bottom_right", head_dim_v=512)
    lengths = (*((n, n) for n in (1, 5, 127, 128, 129, 700)), (1, 700))
    return _lengths_of(_each(shape, window_left=(128, 127), inputs=("one_hot_v",), head_dim_v=(64, 512)), *lengths)


def handed() -> dict[str, list[Case]]:
    """Acceptance cases by id: the dense forward part of each that needs no bias, dropout or packed batch."""
    two_heads = Case(heads_q=2, head_dim=64)
    odd = _lengths_of([Case(batch=2, heads_q=3)], (17, 31), (113, 64))
    large = Case(batch=4, heads_q=8, seqlen_q=4096, head_dim=72, inputs="large_dots")
    smoke = _lengths_of([Case(batch=3, heads_q=5)], (64, 64), (257, 129))
    return {
        "A-01": _lengths_of(
            _each(two_heads, dtype=("bf16", "f32"), mask=("causal",), alignment=BOTH),
            *((2, 5), (5, 2), (1, 8), (257, 64), (64, 257)),
        ),
        "A-09": [Case(dtype="f16", batch=2, heads_q=16, heads_k=8, seqlen_q=2048, head_dim=128)],
        "A-10": [Case(dtype="f16", batch=32, heads_q=8, seqlen_q=128, head_dim=64, inputs="negative900")],
        "A-11": _each(large, dtype=("bf16", "f16")),
        "A-12": [c for s in smoke for c in _each(s, dtype=DTYPES, head_dim=(16, 48, 80), mask=("none", "causal"))],
        "A-13": [
            two_heads.but(seqlen_q=300, seqlen_k=300, mask="window", window_left=left, window_right=right)
            for left, right in ((32, 0), (32, -1), (0, 0))
        ],
        "A-14": [
            Case(dtype="f16", heads_q=8, seqlen_q=16384, head_dim=128, mask=mask, window_left=left, window_right=right)
            for mask, left, right in (
                *(("causal", -1, -1), ("window", -1, 0)),
                *(("window", 16384, 0), ("window", 16383, 0)),
            )
        ],
        "A-15": [Case(heads_q=4, seqlen_q=2048, seqlen_k=1024, head_dim=128, mask="causal", alignment="bottom_right")],
        "A-16": _gpt_oss(),
        "A-18": [Case(dtype="f16", seqlen_q=1, head_dim=16, inputs="normal3")],
        "A-19": _each(Case(batch=2, heads_q=4, seqlen_q=64, seqlen_k=0, head_dim=128), mask=("none", "causal")),
        "A-20": [
            c.but(sm_scale=scale)
            for c in _each(Case(heads_q=8, seqlen_q=256, head_dim=128), mask=("none", "causal"))
            for scale in (128**-0.5, 3 * 128**-0.5)
        ]
        + [Case(heads_q=8, seqlen_q=256, head_dim=128, mask="window", window_left=n, window_right=0) for n in (9, 99)],
        "A-21": _each(two_heads.but(seqlen_q=64, seqlen_k=100), inputs=("zero_q", "normal")),
        "A-24": [
            Case(seqlen_q=1, seqlen_k=n, head_dim=128, inputs=i) for n in (128, 97) for i in ("low_scores", "normal")
        ],
        "A-25": [
            c
            for shape in odd
            for c in _each(
                shape,
                dtype=DTYPES,
                head_dim=(1, 2, 3, 5, 17, 33, 72, 100, 113, 191),
                layout=("bhsd", "padded", "odd"),
            )
        ],
        "A-26": [
            Case(batch=8, heads_q=2, seqlen_q=640, head_dim=head_dim, head_dim_v=head_dim_v)
            for head_dim, head_dim_v in ((128, 64), (128, 144), (192, 128), (40, 200))
        ],
        "A-27": [Case(batch=704, seqlen_q=256, seqlen_k=24000, head_dim=128, layout="sbhd")],
        "A-28": [
            Case(batch=3, heads_q=64, heads_k=8, seqlen_q=131072, seqlen_k=2048, head_dim=128, layout="bshd"),
        ],
        "A-33": [Case(dtype="f16", batch=3, heads_q=5, seqlen_q=16, seqlen_k=64, head_dim=80, mask="causal")],
        "A-34": [Case(batch=2, heads_q=heads, heads_k=2, seqlen_q=1, seqlen_k=1024) for heads in (2, 16)],
        "A-35": [
            Case(dtype=dtype, batch=batch, heads_q=6, seqlen_q=seqlen)
            for dtype in ("f32", "f16")
            for batch, seqlen in ((1, 1025), (8, 201))
        ],
        "A-36": _each(Case(batch=2, heads_q=4, seqlen_q=200), layout=("packed",), head_dim=(64, 128)),
        "A-43": [
            Case(dtype="f16", heads_q=16, seqlen_q=512),
            Case(dtype="f16", heads_q=16, seqlen_q=512, mask="window", window_left=64, window_right=0, lse=False),
        ],
        "A-57": [
            Case(heads_q=heads_q, heads_k=heads_k, seqlen_q=1, seqlen_k=seqlen_k, head_dim=head_dim)
            for heads_q, heads_k, seqlen_k, head_dim in (
                *((16, 1, 8192, 128), (16, 8, 8192, 256)),
                *((16, 16, 8192, 128), (64, 64, 32768, 128)),
            )
        ],
        "A-58": _each(Case(batch=2, heads_q=16, seqlen_q=4096), head_dim=(72, 80, 96, 160, 192)),
    }


SETS: dict[str, Callable[[], list[Case]]] = {
    "quick": lambda: _once(quick()),
    "grid": lambda: _once(grid()),
    "pairs": lambda: _once(pairs()),
    "handed": lambda: _once(case for cases in handed().values() for case in cases),
    "speed": lambda: _once(speed()),
}


def _once(cases: Iterator[Case]) -> list[Case]:
    return list(dict.fromkeys(cases))


def case_set(name: str) -> list[Case]:
    if name not in SETS:
        raise UserError(f"no set of cases {name!r}; the sets are {', '.join(SETS)}")
    return SETS[name]()


def handed_id(case: Case) -> str | None:
    """The acceptance case that this is, if it is one."""
    return next((name for name, cases in handed().items() if case in cases), None)
