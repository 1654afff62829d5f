"""Which kernels exist: what each computes, its configs, and what it needs of a problem.

The order of KERNELS, and of each kernel's configs, is the default order of preference.
"""

from collections.abc import Callable

from .arch import ARCHS
from .describe import Kernel, Requirement, Values, Variant
from .dtypes import DTYPES
from .ops.attn_fwd import attn_fwd

# head_dim, head_dim_v that are worth images of their own; other unequal pairs run in the larger one's bucket
UNEQUAL_HEAD_DIMS = ((128, 64), (192, 128))
CORE_HEAD_DIMS = (32, 64, 128, 256, 512)
TENSORS = ("q", "k", "v", "out")


def _itemsize(features: Values) -> int:
    return DTYPES[str(features["dtype"])].bytes


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

# block_m, block_n, num_warps, num_stages
FLASH_TILES: dict[tuple[str, int, int], tuple[tuple[int, int, int, int], ...]] = {}


def _flash_configs(arch: str, features: Values) -> list[Values]:
    names = ("block_m", "block_n", "num_warps", "num_stages")
    widest = max(int(features["head_dim"]), int(features["head_dim_v"]))
    tiles = FLASH_TILES.get((arch, _itemsize(features), widest), ((64, 32, 4, 1),))
    # aligned=0 takes any layout; its image serves padded and unpadded heads
    rows = [(*tile, True) for tile in tiles] + [(*tiles[0], False)]
    return [dict(zip((*names, "aligned"), row, strict=True)) for row in rows]


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
        f"{t}_stride_{axis}": {"divisibility": 16 // _itemsize(v.features)}
        for t in TENSORS
        for axis in range(3)
    }
    return {f"{t}_ptr": pointers for t in TENSORS} | strides


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
    options=lambda config: {"num_warps": config["num_warps"], "num_stages": config["num_stages"]},
    requires=_flash_requires,
    hints=_flash_hints,
)

# ---- sm_90: persistent, warp-specialised -----------------------------------------------------------------------------

HOPPER_NAMES = ("block_m", "block_n", "kv_stages", "order", "ping_pong", "overlap_tiles", "even")
HOPPER_CONFIGS: dict[int, tuple[tuple[int, ...], ...]] = {}


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


KERNELS = {k.name: k for k in (fwd_flash,)}


def _core(v: Variant) -> bool:
    """A few head dims, the rest of the problems in the next larger of them."""
    return (
        v["head_dim"] in CORE_HEAD_DIMS
        and v["head_dim_v"] == v["head_dim"]
        and (v["dtype"] != "f32" or not v.config.get("aligned", True))
    )


PROFILES: dict[str, Callable[[Variant], bool]] = {"core": _core, "full": lambda _: True}
