"""A private copy of the C library on the fake driver, for each test."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab import Lab


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    memory = Path("/dev/shm")  # SQLite waits for the disk at every commit
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as directory:
        made = Lab(Path(directory), monkeypatch)
        yield made
        made.close()
