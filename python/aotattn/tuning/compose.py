"""tuning.db, composed from the text rows of tuning_db/ when the library is built."""

from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

from ..database import new_database
from ..describe import UserError
from .rows import PROVENANCES, Row, read_rows

SCHEMA_VERSION = 1
SCHEMA = f"""
PRAGMA user_version = {SCHEMA_VERSION};
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE choice (
  operator TEXT NOT NULL,
  arch TEXT NOT NULL,
  features TEXT NOT NULL,
  compute_units INTEGER NOT NULL,
  seqlen_q INTEGER NOT NULL,
  seqlen_k INTEGER NOT NULL,
  batch_heads INTEGER NOT NULL,
  backend TEXT NOT NULL,
  kernel TEXT NOT NULL,
  config TEXT NOT NULL,
  time_us REAL,
  runner_up TEXT,            -- "backend/kernel/config"
  runner_up_time_us REAL,
  provenance TEXT NOT NULL,
  device TEXT NOT NULL,
  revision TEXT NOT NULL,
  spread REAL,
  PRIMARY KEY (operator, arch, features, compute_units, seqlen_q, seqlen_k, batch_heads)
) STRICT, WITHOUT ROWID;
"""


def compose(directory: Path, path: Path) -> None:
    """Write the winners of every `<arch>-<operator>.tsv` in `directory` to a database, whole, or leave the old one.

    Raises UserError naming the file and line that is wrong.
    """
    choices = [choice for file in sorted(directory.glob("*.tsv")) for choice in choices_of(file)]
    path.parent.mkdir(parents=True, exist_ok=True)
    with new_database(path, SCHEMA) as db:
        db.table("meta").insert_all([{"key": "choices", "value": str(len(choices))}])
        db.table("choice").insert_all(choices)


def choices_of(file: Path) -> list[dict[str, Any]]:
    """The rows of `choice` that a text file gives; the file's name says arch and operator."""
    arch, dash, operator = file.stem.partition("-")
    if not dash:
        raise UserError(f"{file}: the name must be <arch>-<operator>.tsv")
    return [{"operator": operator, "arch": arch, **choice} for choice in winners(read_rows(file))]


def winners(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Of each bin the best row, with its runner-up; of a functional only bins of its best provenance.

    So that a rule's row, for being nearer to a problem, does not beat what was measured.
    """
    rows = list(rows)
    best_rank: dict[str, int] = {}
    for row in rows:
        rank = PROVENANCES.index(row.provenance)
        best_rank[row.features] = min(rank, best_rank.get(row.features, rank))
    choices = []
    kept = [row for row in rows if PROVENANCES.index(row.provenance) == best_rank[row.features]]
    ordered = sorted(kept, key=lambda row: (row.bin, row.rank))
    for _, group in groupby(ordered, key=lambda row: row.bin):
        best, *others = group
        values = {name: getattr(best, name) for name in BEST}
        second = others[0] if others else None
        values |= {"runner_up": second and second.plan, "runner_up_time_us": second and second.time_us}
        choices.append(values)
    return choices


BEST = (
    *("features", "compute_units", "seqlen_q", "seqlen_k", "batch_heads", "backend", "kernel", "config"),
    *("time_us", "provenance", "device", "revision", "spread"),
)
