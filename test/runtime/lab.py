"""What these tests work with: tiny stores and tuning databases, problems, and what the fake driver saw."""

import ctypes
import dataclasses
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Sequence
from ctypes import byref
from pathlib import Path
from typing import Any

import pytest
from aotattn import runtime
from aotattn.expressions import postfix
from aotattn.ops.attn_fwd import attn_fwd
from aotattn.runtime import View
from aotattn.store import Argument, StoredKernel, StoredPlan, store_path, write_store
from aotattn.tuning.compose import SCHEMA as TUNING_SCHEMA

BUILD = Path(__file__).parents[2] / "build"
ITEM_BYTES = {"f16": 2, "bf16": 2, "f32": 4}
SIZES = {"ptr": 8, "i64": 8, "i32": 4, "f32": 4, "i1": 1, "tensormap": 128}
PLAIN = (("q.ptr", "ptr"), ("out.ptr", "ptr"), ("sm_scale", "f32"), ("seqlen_k", "i32"), ("null", "ptr"))


class Record(ctypes.Structure):
    """What the fake driver keeps of a call."""

    _fields_ = (
        ("what", ctypes.c_char * 16),
        ("symbol", ctypes.c_char * 64),
        ("platform", ctypes.c_int32),
        ("device", ctypes.c_int32),
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("shared_bytes", ctypes.c_uint32),
        ("cluster", ctypes.c_uint32),
        ("stream", ctypes.c_uint64),
        ("address", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
        ("block_", ctypes.c_uint8 * 4096),
    )

    @property
    def arguments(self) -> bytes:
        return bytes(self.block_[: self.bytes])


class Lab:
    """One private copy of the library and of the fake driver: nothing is shared between tests."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for path in (BUILD / "lib" / runtime.LIBRARY, BUILD / "test" / "libfake_driver.so"):
            if not path.exists():
                pytest.fail(f"{path} is not there; run make build")
            shutil.copy(path, directory)
        self.directory = directory
        self.stores = directory / "aotattn"
        self.stores.mkdir()
        fake = directory / "libfake_driver.so"
        for knob in ("AOTATTN_STORE_DIR", "AOTATTN_TUNING_DB"):
            monkeypatch.delenv(knob, raising=False)
        monkeypatch.setenv("AOTATTN_CUDA_LIBRARY", str(fake))
        monkeypatch.setenv("AOTATTN_HIP_LIBRARY", str(fake))
        monkeypatch.setenv("FAKE_CUDA_DEVICES", "sm_90/132,sm_90/114")
        monkeypatch.setenv("FAKE_HIP_DEVICES", "gfx950:sramecc+:xnack-/256,gfx942/304")
        monkeypatch.setattr(runtime, "library_directory", lambda: directory)
        runtime.library.cache_clear()
        self.driver = ctypes.CDLL(str(fake))
        self.driver.fake_num_records.restype = ctypes.c_size_t
        self.driver.fake_time.restype = ctypes.c_double
        self.library = runtime.library()

    def close(self) -> None:
        self.library.aot_set_log(runtime.LOG_FN(), None)
        runtime.library.cache_clear()

    def store(self, *plans: StoredPlan, arch: str = "sm_90", **meta: str) -> Path:
        """Write the store of `arch` beside the library."""
        facts = {"arch": arch, "library_version": runtime.version(), "compute_units": "132"} | meta
        path = store_path(self.stores, arch)
        write_store(path, plans, facts)
        return path

    def tuning(self, *rows: dict[str, Any], path: Path | None = None, version: int = 1) -> Path:
        """Write a tuning database, by default the installed one."""
        path = path or self.stores / "tuning.db"
        db = sqlite3.connect(path)
        db.executescript(TUNING_SCHEMA.replace("user_version = 1", f"user_version = {version}"))
        for row in rows:
            names = ", ".join(row)
            db.execute(f"INSERT INTO choice ({names}) VALUES ({', '.join('?' * len(row))})", tuple(row.values()))
        db.commit()
        db.close()
        return path

    def launch(self, params: ctypes.Structure, platform: str = "cuda", device: int = 0, **how: Any) -> None:
        runtime.launch("attn_fwd", params, runtime.call(platform, device, **how))

    def records(self, what: str = "launch") -> list[Record]:
        """What the driver saw so far."""
        records = [Record() for _ in range(self.driver.fake_num_records())]
        for i, record in enumerate(records):
            self.driver.fake_record(ctypes.c_size_t(i), byref(record))
        return [r for r in records if r.what.decode() == what]

    def launched(self) -> list[str]:
        return [r.symbol.decode() for r in self.records()]

    def fail(self, name: str, code: int = 999, times: int = 1) -> None:
        """Let the next calls of a driver function fail."""
        self.driver.fake_fail(name.encode(), code, times)

    def refusal(self, params: Any, call: Any = "cuda", launch: Callable[..., int] | None = None) -> tuple[str, str]:
        """The status and sentence of a launch, by the C ABI alone."""
        where = runtime.call(call, 0) if isinstance(call, str) else call
        entry = launch or self.library.aot_attn_fwd
        status = entry(params and byref(params), where and byref(where))
        return runtime.status_name(status), self.library.aot_last_error().decode()


def output(*command: str | Path) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def is_sanitized(library: Path) -> bool:
    needed = output("readelf", "-d", library)
    return "libasan" in needed or "libtsan" in needed


def features(
    *, dtype: str = "bf16", head_dim: int = 64, head_dim_v: int | None = None, mask: str = "none", padded_head: int = 0
) -> str:
    return (
        f"dtype={dtype},head_dim={head_dim},head_dim_v={head_dim_v or head_dim},mask={mask},padded_head={padded_head}"
    )


def arguments(named: Sequence[tuple[str, str]], maps: dict[str, tuple[int, ...]] | None = None) -> tuple[Argument, ...]:
    """Arguments at their natural places; a tensor of type "tensormap" takes its facts from `maps`."""
    placed, end = [], 0
    for name, kind in named:
        align = 64 if kind == "tensormap" else SIZES[kind]
        offset = -(-end // align) * align
        placed.append(Argument(name, kind, offset, (maps or {}).get(name, ()) if kind == "tensormap" else ()))
        end = offset + SIZES[kind]
    return tuple(placed)


def kernel(symbol: str = "attn", named: Sequence[tuple[str, str]] = PLAIN, **facts: Any) -> StoredKernel:
    """A kernel whose image the fake driver takes."""
    placed = arguments(named, facts.pop("maps", None))
    sizes = [SIZES[a.type] for a in placed]
    values: dict[str, Any] = {
        "name": "fwd",
        "image": f"{symbol} {' '.join(map(str, sizes))}\n".encode(),
        "symbol": symbol,
        "threads": 128,
        "shared_bytes": 1024,
        "cluster": 1,
        "argument_bytes": -(-(placed[-1].offset + sizes[-1]) // 8) * 8,
        "arguments": placed,
        "grid": ("seqlen_q 64 cdiv heads_q *", "batch", "1"),
    }
    return StoredKernel(**(values | facts))


def plan(config: str = "block=64", *steps: StoredKernel, **facts: Any) -> StoredPlan:
    """A plan of one step named like its config, unless other steps are given."""
    values: dict[str, Any] = {
        "operator": "attn_fwd",
        "features": features(),
        "backend": "triton",
        "kernel": "fwd",
        "config": config,
        "requirements": (),
        "workspace": (),
        "steps": steps or (kernel(symbol=config.replace("=", "_")),),
    }
    return StoredPlan(**(values | facts))


def requirement(expression: str, reason: str) -> str:
    return f"{postfix(expression, attn_fwd.vocabulary(), {})}\t{reason}"


def tuned(config: str, seqlen_q: int, seqlen_k: int, batch_heads: int = 16, **others: Any) -> dict[str, Any]:
    """A row of the tuning database."""
    return {
        "operator": "attn_fwd",
        "arch": "sm_90",
        "features": features(),
        "compute_units": 132,
        "seqlen_q": seqlen_q,
        "seqlen_k": seqlen_k,
        "batch_heads": batch_heads,
        "backend": "triton",
        "kernel": "fwd",
        "config": config,
        "time_us": 12.5,
        "runner_up": None,
        "runner_up_time_us": None,
        "provenance": "measured",
        "device": "NVIDIA H200",
        "revision": "abc",
        "spread": 0.01,
    } | others


def contiguous(pointer: int, dtype: str, *size: int) -> View:
    strides = [1]
    for extent in reversed(size[1:]):
        strides.insert(0, strides[0] * extent)
    return View(pointer, dtype, size, tuple(strides))


@dataclasses.dataclass(frozen=True)
class Problem:
    """Contiguous tensors at addresses that tell them apart; memory that no kernel of these tests touches."""

    batch: int = 2
    heads_q: int = 8
    heads_k: int = 2
    seqlen_q: int = 128
    seqlen_k: int = 256
    head_dim: int = 64
    head_dim_v: int | None = None
    dtype: str = "bf16"
    mask: str = "none"
    alignment: str = "top_left"
    window_left: int = -1
    window_right: int = -1
    sm_scale: float = 0.125
    lse: bool = True

    def parameters(self) -> Any:
        """The C struct, to be spoilt at will."""
        q = (self.batch, self.heads_q, self.seqlen_q)
        k = (self.batch, self.heads_k, self.seqlen_k)
        head_dim_v = self.head_dim if self.head_dim_v is None else self.head_dim_v
        return runtime.parameters(
            "attn_fwd",
            {
                "mask": self.mask,
                "alignment": self.alignment,
                "window_left": self.window_left,
                "window_right": self.window_right,
                "sm_scale": self.sm_scale,
                "q": contiguous(0x10000, self.dtype, *q, self.head_dim),
                "k": contiguous(0x20000, self.dtype, *k, self.head_dim),
                "v": contiguous(0x30000, self.dtype, *k, head_dim_v),
                "out": contiguous(0x40000, self.dtype, *q, head_dim_v),
                "lse": contiguous(0x50000, "f32", *q) if self.lse else None,
            },
        )
