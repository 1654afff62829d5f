"""SQLite files that appear whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlite_utils


@contextmanager
def new_database(path: Path, schema: str) -> Iterator[sqlite_utils.Database]:
    """A database made by `schema`, to be filled in one transaction.

    It is written to a temporary name and renamed when the block ends: whoever dies or raises there leaves the old file.
    """
    part = path.with_suffix(f".{os.getpid()}.part")
    part.unlink(missing_ok=True)
    db = sqlite_utils.Database(part)
    try:
        db.conn.executescript(schema)
        with db.conn:
            yield db
        db.close()
        os.replace(part, path)
    finally:
        db.close()
        part.unlink(missing_ok=True)
