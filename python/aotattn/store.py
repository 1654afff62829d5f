"""The kernel store `aotattn-<arch>.db`: images, how to launch them, and the plans made of them.

Text columns that hold lists have one item a line:
  kernel.arguments    "<name> <type> <offset>", type ptr i32 i64 f32; "null ptr <offset>" is a null pointer;
                      "<tensor> tensormap <offset> <element type> <swizzle> <box, outermost first...>" is a TMA
                      descriptor with the CUDA driver's enum values (0 for an unknown name is no valid value)
  plan.requirements   "<postfix expression>\t<reason>"
  plan.workspace      "<name> <zeroed: 0 or 1> <postfix expression of its bytes>"
  plan.steps          ids of kernels, in launch order
Expressions: see expressions.py. `plan.position` is the default order of preference within a functional.
"""

import hashlib
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import sqlite_utils

from .database import new_database

SCHEMA_VERSION = 1
SCHEMA = f"""
PRAGMA user_version = {SCHEMA_VERSION};
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE image (
  hash TEXT PRIMARY KEY,     -- sha256 of the image
  bytes INTEGER NOT NULL CHECK (bytes > 0), -- size of the image
  crc32 INTEGER NOT NULL,    -- of the image; checked when it is loaded
  data BLOB NOT NULL         -- the image, compressed by zlib
) STRICT;
CREATE TABLE kernel (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  image TEXT NOT NULL REFERENCES image(hash),
  symbol TEXT NOT NULL,
  threads INTEGER NOT NULL,        -- per workgroup
  shared_bytes INTEGER NOT NULL,   -- dynamic shared memory (LDS)
  cluster INTEGER NOT NULL,        -- workgroups in a cluster, 1: none
  argument_bytes INTEGER NOT NULL, -- size of the argument block
  arguments TEXT NOT NULL,
  grid_x TEXT NOT NULL,
  grid_y TEXT NOT NULL,
  grid_z TEXT NOT NULL
) STRICT;
CREATE TABLE plan (
  operator TEXT NOT NULL,
  features TEXT NOT NULL,
  position INTEGER NOT NULL,
  backend TEXT NOT NULL,
  kernel TEXT NOT NULL,            -- name of the kernel description it comes from
  config TEXT NOT NULL,
  requirements TEXT NOT NULL,
  workspace TEXT NOT NULL,
  steps TEXT NOT NULL,
  PRIMARY KEY (operator, features, position)
) STRICT, WITHOUT ROWID;
"""


@dataclass(frozen=True)
class Argument:
    """One kernel parameter: where the value of `name` goes in the argument block."""

    name: str
    type: str
    offset: int
    tensormap: tuple[int, ...] = ()  # element type, swizzle, box

    def __str__(self) -> str:
        return " ".join(map(str, (self.name, self.type, self.offset, *self.tensormap)))


@dataclass(frozen=True)
class Image:
    """A code object and what the launch of it needs."""

    image: bytes
    symbol: str
    threads: int
    shared_bytes: int
    cluster: int
    argument_bytes: int
    arguments: tuple[Argument, ...]


@dataclass(frozen=True)
class StoredKernel(Image):
    """A row of `kernel` and one of `image`."""

    name: str
    grid: tuple[str, str, str]


@dataclass(frozen=True)
class StoredPlan:
    """A row of `plan`."""

    operator: str
    features: str
    backend: str
    kernel: str
    config: str
    requirements: tuple[str, ...]
    workspace: tuple[str, ...]
    steps: tuple[StoredKernel, ...]


def store_path(directory: Path, arch: str) -> Path:
    return directory / f"aotattn-{arch}.db"


def write_store(path: Path, plans: Iterable[StoredPlan], meta: Mapping[str, str]) -> None:
    """Write a store whole, or leave the old one.

    plans   in the default order of preference within a functional
    meta    arch, library_version, source_revision, compiler versions, ...
    """
    with new_database(path, SCHEMA) as db:
        db.table("meta").insert_all({"key": k, "value": v} for k, v in sorted(meta.items()))
        ids: dict[StoredKernel, int] = {}
        positions: dict[tuple[str, str], int] = {}
        for plan in plans:
            for kernel in plan.steps:
                if kernel not in ids:
                    ids[kernel] = len(ids) + 1
                    _insert_kernel(db, ids[kernel], kernel)
            place = (plan.operator, plan.features)
            positions[place] = positions.get(place, -1) + 1
            db.table("plan").insert(
                {
                    "operator": plan.operator,
                    "features": plan.features,
                    "position": positions[place],
                    "backend": plan.backend,
                    "kernel": plan.kernel,
                    "config": plan.config,
                    "requirements": "\n".join(plan.requirements),
                    "workspace": "\n".join(plan.workspace),
                    "steps": " ".join(str(ids[kernel]) for kernel in plan.steps),
                }
            )


def _insert_kernel(db: sqlite_utils.Database, number: int, kernel: StoredKernel) -> None:
    digest = hashlib.sha256(kernel.image).hexdigest()
    db.table("image").insert(
        {
            "hash": digest,
            "bytes": len(kernel.image),
            "crc32": zlib.crc32(kernel.image),
            "data": zlib.compress(kernel.image, 9),
        },
        ignore=True,
    )
    db.table("kernel").insert(
        {
            "id": number,
            "name": kernel.name,
            "image": digest,
            "symbol": kernel.symbol,
            "threads": kernel.threads,
            "shared_bytes": kernel.shared_bytes,
            "cluster": kernel.cluster,
            "argument_bytes": kernel.argument_bytes,
            "arguments": "\n".join(map(str, kernel.arguments)),
            "grid_x": kernel.grid[0],
            "grid_y": kernel.grid[1],
            "grid_z": kernel.grid[2],
        }
    )
