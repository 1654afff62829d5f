"""Which kernels exist: what each computes, its configs, and what it needs of a problem.

The order of KERNELS, and of each kernel's configs, is the default order of preference.
"""

from collections.abc import Callable, Iterable

from .arch import ARCHS
from .describe import Kernel, Requirement, Value, Values, Variant, Workspace
from .dtypes import DTYPES
from .ops.attn_fwd import attn_fwd

# head_dim, head_dim_v that are worth images of their own; other unequal pairs run in the larger one's bucket
UNEQUAL_HEAD_DIMS = ((128, 64), (192, 128))
CORE_HEAD_DIMS = (64, 128, 256, 512)
TENSORS = ("q", "k", "v", "out")
POSITIVE_SCALE = Requirement("scale_sign > 0", "sm_scale is not positive")  # the row maximum is taken before the scale


def _itemsize(features: Values) -> int:
    return DTYPES[str(features["dtype"])].bytes


def _image_head_dim(built: Iterable[int], head_dim: int) -> int:
    """Of the image: missing columns are filled with zeros as they are loaded, so few images serve all buckets."""
    return next(d for d in built if d >= head_dim)


def _unequal(features: Values) -> str | None:
    pair = (features["head_dim"], features["head_dim_v"])
    if pair[0] == pair[1] or pair in UNEQUAL_HEAD_DIMS:
        return None
    return f"head_dim {pair[0]} with head_dim_v {pair[1]} runs in the bucket of the larger one"


def _aligned(v: Variant) -> list[Requirement]:
    """Addresses and strides are multiples of 16 bytes: loads are 16 bytes wide, TMA descriptors can be made."""
    step = 16 // _itemsize(v.features)
    return [
        Requirement(
            " and ".join((f"{t}.ptr % 16 == 0", *(f"{t}.stride.{axis} % {step} == 0" for axis in range(3)))),
            f"the address and strides of {t} are no multiples of 16 bytes",
        )
        for t in TENSORS
    ]


# ---- Triton, every arch and every feature ----------------------------------------------------------------------------

FLASH_NAMES = ("block_m", "block_n", "num_warps", "num_stages")
Tile = tuple[int, int, int, int]
# arch, bytes of an element -> largest head_dim -> tiles of aligned problems, best guess first, and that of any layout.
# The last of several is for few queries. What spills, the build reports.
FLASH_TILES: dict[tuple[str, int], dict[int, tuple[tuple[Tile, ...], Tile]]] = {
    ("gfx950", 2): {
        64: (((128, 64, 4, 2), (256, 64, 8, 2), (16, 64, 4, 2)), (128, 64, 4, 2)),
        128: (((128, 64, 4, 2), (64, 64, 4, 2), (16, 64, 4, 2)), (128, 64, 4, 2)),
        256: (((128, 32, 4, 2), (64, 64, 4, 2), (16, 64, 4, 2)), (64, 32, 4, 1)),
        512: (((64, 32, 4, 2), (16, 32, 4, 2)), (64, 16, 4, 2)),
    },
    ("gfx950", 4): {
        64: (((128, 32, 4, 2),), (128, 32, 4, 2)),
        128: (((128, 32, 4, 1),), (128, 32, 4, 1)),
        256: (((64, 32, 4, 1),), (64, 32, 4, 1)),
        512: (((32, 16, 4, 1),), (32, 16, 4, 1)),
    },
    ("gfx942", 2): {
        64: (((128, 64, 4, 1), (16, 64, 4, 1)), (64, 64, 4, 1)),
        128: (((64, 64, 4, 1), (16, 64, 4, 1)), (64, 64, 4, 1)),
        256: (((32, 32, 4, 1), (16, 32, 4, 1)), (32, 32, 4, 1)),
        512: (((16, 32, 4, 1),), (16, 32, 4, 1)),
    },
    ("gfx942", 4): {
        64: (((64, 32, 4, 1),), (64, 32, 4, 1)),
        128: (((64, 32, 4, 1),), (64, 32, 4, 1)),
        256: (((32, 16, 4, 1),), (32, 16, 4, 1)),
        512: (((16, 16, 4, 1),), (16, 16, 4, 1)),
    },
    ("gfx1201", 2): {
        64: (((128, 64, 8, 2), (16, 64, 4, 1)), (64, 32, 4, 1)),
        128: (((128, 32, 8, 2), (16, 32, 4, 1)), (64, 32, 8, 1)),
        256: (((64, 32, 8, 1), (16, 32, 4, 1)), (64, 16, 8, 1)),
        512: (((16, 16, 8, 1),), (16, 16, 8, 1)),
    },
    ("gfx1201", 4): {
        64: (((32, 16, 4, 1),), (32, 16, 8, 1)),
        128: (((16, 16, 8, 1),), (16, 16, 8, 1)),
        512: (((16, 16, 16, 1),), (16, 16, 16, 1)),
    },
    ("sm_90", 2): {
        64: (((128, 128, 8, 2), (16, 64, 4, 3)), (128, 32, 8, 1)),
        128: (((128, 64, 8, 3), (16, 64, 4, 2)), (128, 32, 8, 1)),
        192: (((128, 64, 8, 2), (16, 64, 4, 2)), (64, 16, 8, 1)),
        256: (((128, 32, 8, 2), (16, 64, 4, 2)), (64, 16, 8, 1)),
        384: (((64, 32, 8, 2), (16, 32, 4, 1)), (16, 16, 4, 1)),
        512: (((16, 32, 4, 2),), (32, 16, 8, 1)),
    },
    ("sm_90", 4): {
        64: (((64, 32, 8, 1),), (64, 16, 8, 1)),
        128: (((64, 32, 8, 1),), (64, 16, 8, 1)),
        256: (((64, 16, 8, 1),), (32, 16, 8, 1)),
        512: (((32, 16, 8, 1),), (32, 16, 8, 1)),
    },
}


def _flash_configs(arch: str, features: Values) -> list[Values]:
    widest = max(int(features["head_dim"]), int(features["head_dim_v"]))
    by_head_dim = FLASH_TILES[arch, _itemsize(features)]
    tiles, any_layout = by_head_dim[next(d for d in by_head_dim if d >= widest)]
    if features["padded_head"]:  # costs registers as any layout does
        tiles = (any_layout, *(tile for tile in tiles[1:] if tile != any_layout))
    rows = [(*tile, True) for tile in tiles] + [(*any_layout, False)]
    return [dict(zip((*FLASH_NAMES, "aligned"), row, strict=True)) for row in rows]


def _flash_constants(features: Values, config: Values) -> Values:
    return {
        "head_dim": features["head_dim"],
        "head_dim_v": features["head_dim_v"],
        "mask": features["mask"],
        "padded_head": bool(features["padded_head"] or not config["aligned"]),
        "block_m": config["block_m"],
        "block_n": config["block_n"],
    }


def _flash_hints(v: Variant) -> dict[str, dict[str, int]]:
    if not v.config["aligned"]:
        return {}
    pointers = {"divisibility": 16}
    if ARCHS[v.arch].platform == "hip":
        pointers["pointer_range"] = 32  # buffer loads, and asynchronous copies into LDS
    strides = {
        f"{t}_stride_{axis}": {"divisibility": 16 // _itemsize(v.features)} for t in TENSORS for axis in range(3)
    }
    return {f"{t}_ptr": pointers for t in TENSORS} | strides


def _flash_options(v: Variant) -> Values:
    options: dict[str, Value] = {"num_warps": v["num_warps"], "num_stages": v["num_stages"]}
    if ARCHS[v.arch].platform == "hip":
        options["llvm_fn_attrs"] = "amdgpu-no-implicitarg-ptr"  # no hidden arguments: nothing reads them
    if ARCHS[v.arch].matrix == "mfma" and v["dtype"] != "f32" and v["head_dim"] in (16, 48, 80):
        options["matrix_instr_nonkdim"] = 16  # a piece of 16 columns is half of the wider instruction
    return options


def _flash_requires(v: Variant) -> list[Requirement]:
    if not v.config["aligned"]:
        return []
    small = [Requirement(f"{t}.bytes < 2147483648", f"{t} spans 2 GiB or more") for t in TENSORS]
    return _aligned(v) + (small if ARCHS[v.arch].platform == "hip" else [])


fwd_flash = Kernel(
    name="fwd_flash",
    operator=attn_fwd,
    backend="triton",
    source="tritonsrc/attn_fwd.py:attn_fwd",
    configs=_flash_configs,
    declines=lambda arch, features: _unequal(features),
    constants=_flash_constants,
    grid=("cdiv(seqlen_q, block_m) * heads_q * batch", "1", "1"),
    options=_flash_options,
    requires=_flash_requires,
    hints=_flash_hints,
)

# ---- Gluon on sm_90: persistent, warp-specialised --------------------------------------------------------------------

HOPPER_NAMES = ("block_m", "block_n", "kv_stages", "order", "ping_pong", "overlap_tiles")
# head_dim of the image -> configs
HOPPER_CONFIGS: dict[int, tuple[tuple[int, ...], ...]] = {
    64: ((192, 128, 4, 1, False, True), (128, 128, 4, 0, False, True)),
    128: ((128, 128, 2, 1, True, True), (128, 128, 2, 1, False, True)),
    256: ((128, 64, 2, 1, False, False),),
    512: ((128, 64, 1, 1, False, False),),
}


def _hopper_head_dim(features: Values) -> int:
    return _image_head_dim(HOPPER_CONFIGS, int(features["head_dim"]))


def _hopper_configs(arch: str, features: Values) -> list[Values]:
    return [dict(zip(HOPPER_NAMES, row, strict=True)) for row in HOPPER_CONFIGS[_hopper_head_dim(features)]]


def _hopper_declines(arch: str, features: Values) -> str | None:
    if arch != "sm_90":
        return "needs the tensor memory accelerator and wgmma of sm_90"
    if features["dtype"] == "f32":
        return "has no f32 matrix product"
    if features["mask"] == "window":
        return "has no window"
    if features["head_dim"] != features["head_dim_v"]:
        return "takes only head_dim_v = head_dim"
    return None


def _hopper_requires(v: Variant) -> list[Requirement]:
    return [
        *_aligned(v),
        Requirement("head_dim % 8 == 0", "head_dim is no multiple of 8, and out is stored in pieces of 16 bytes"),
        Requirement("seqlen_k >= 1", "there are no keys"),
        POSITIVE_SCALE,
        Requirement("cdiv(seqlen_q, block_m) * heads_q * batch < 1073741824", "too many tiles to count in 32 bits"),
    ]


def _hopper_descriptors(features: Values, config: Values) -> dict[str, tuple[int, ...]]:
    head_dim = _hopper_head_dim(features)
    columns, part = min(head_dim, 256), head_dim if head_dim <= 256 else 128
    keys = int(config["block_n"])
    return {"q": (1, 1, 64, part), "k": (1, 1, keys, part), "v": (1, 1, keys, columns), "out": (1, 1, 64, columns)}


fwd_hopper = Kernel(
    name="fwd_hopper",
    operator=attn_fwd,
    backend="triton",
    source="tritonsrc/attn_fwd_hopper.py:attn_fwd_hopper",
    configs=_hopper_configs,
    declines=_hopper_declines,
    constants=lambda features, config: {"head_dim": _hopper_head_dim(features), "mask": features["mask"], **config},
    grid=("min(compute_units, cdiv(seqlen_q, block_m) * heads_q * batch * cdiv(head_dim, 256))", "1", "1"),
    options=lambda _: {"num_warps": 4},
    requires=_hopper_requires,
    descriptors=_hopper_descriptors,
    workspace=(Workspace("counter", "4", zeroed=True),),
)

# ---- FlyDSL on gfx950: two wave groups, software-pipelined -----------------------------------------------------------

DUAL_WAVE_NAMES = ("block_m", "block_n", "early", "ahead", "rescale", "stagger", "heads_stay", "aligned")
# larger head_dim of the image -> block_m, block_n, early, ahead, rescale of aligned problems
DUAL_WAVE_TILES = {
    64: (256, 64, 5, 4, "on_demand"),
    128: (256, 64, 3, 4, "on_demand"),
    192: (256, 32, 4, 4, "on_demand"),
    256: (256, 32, 4, 2, "lazy"),  # registers for no more
}


def _dual_wave_head_dims(features: Values) -> tuple[int, int]:
    pair = (int(features["head_dim"]), int(features["head_dim_v"]))
    if pair in UNEQUAL_HEAD_DIMS:
        return pair
    widest = _image_head_dim(DUAL_WAVE_TILES, pair[0])
    return widest, widest


def _dual_wave_configs(arch: str, features: Values) -> list[Values]:
    block_m, block_n, early, ahead, rescale = DUAL_WAVE_TILES[max(_dual_wave_head_dims(features))]
    tile = (block_m, block_n, early, ahead)
    registers_left = block_n == 64 and features["mask"] != "window"
    rows = [
        (*tile, rescale, True, True, True),
        (*tile, rescale, True, False, True),
        *([(*tile, "lazy", False, True, True)] if registers_left else []),
        (*tile, "lazy" if rescale == "on_demand" else "always", True, True, True),
        (block_m, block_n, 4, 1, "lazy", True, True, False),  # registers go into addresses
    ]
    return [dict(zip(DUAL_WAVE_NAMES, row, strict=True)) for row in rows]


def _dual_wave_declines(arch: str, features: Values) -> str | None:
    if arch != "gfx950":
        return "needs the transposed LDS reads and the wide matrix products of gfx950"
    if features["dtype"] == "f32":
        return "has no f32 matrix product"
    if max(int(features["head_dim"]), int(features["head_dim_v"])) > max(DUAL_WAVE_TILES):
        return f"has no registers for a head_dim above {max(DUAL_WAVE_TILES)}"
    return _unequal(features)


def _dual_wave_constants(features: Values, config: Values) -> Values:
    head_dim, head_dim_v = _dual_wave_head_dims(features)
    exact = (head_dim, head_dim_v) == (features["head_dim"], features["head_dim_v"])
    return {
        "dtype": features["dtype"],
        "head_dim": head_dim,
        "head_dim_v": head_dim_v,
        "mask": features["mask"],
        "check_columns": bool(features["padded_head"] or not exact or not config["aligned"]),
        **config,
    }


def _dual_wave_requires(v: Variant) -> list[Requirement]:
    requirements = [
        POSITIVE_SCALE,
        *(
            # up to four tiles past the end are asked for, and read as zeros
            Requirement(
                f"({t}.size.2 + block_m) * {t}.stride.2 * {_itemsize(v.features)} < 2147483648",
                f"a head of {t} spans 2 GiB or more",
            )
            for t in TENSORS
        ),
    ]
    if not v.config["aligned"]:
        return requirements
    whole = [
        Requirement(f"{d} % 8 == 0", f"{d} is no multiple of 8, and loads are 16 bytes wide")
        for d in ("head_dim", "head_dim_v")
    ]
    return requirements + _aligned(v) + whole


fwd_dual_wave = Kernel(
    name="fwd_dual_wave",
    operator=attn_fwd,
    backend="flydsl",
    source="kernels/attention/fwd_dual_wave.py:build",
    configs=_dual_wave_configs,
    declines=_dual_wave_declines,
    constants=_dual_wave_constants,
    grid=("cdiv(seqlen_q, block_m) * heads_q * batch", "1", "1"),
    options=lambda _: {"num_warps": 8, "waves_per_eu": 2},
    requires=_dual_wave_requires,
    hints=lambda v: {f"{t}_ptr": {"divisibility": 16} for t in TENSORS} if v.config["aligned"] else {},
)

KERNELS = {k.name: k for k in (fwd_hopper, fwd_dual_wave, fwd_flash)}


def _core(v: Variant) -> bool:
    """A few head dims with one config each; other problems run in the next larger head_dim."""
    if v["head_dim"] not in CORE_HEAD_DIMS or v["head_dim_v"] != v["head_dim"]:
        return False
    any_layout = not v.config.get("aligned", True)
    first = v.config == v.kernel.configs(v.arch, v.features)[0]
    return any_layout or (first and v["dtype"] != "f32")


PROFILES: dict[str, Callable[[Variant], bool]] = {"core": _core, "full": lambda _: True}
