"""kernels/attention/schedule.py: no wave reads a tile that has not landed, or overwrites one that is still read."""

from itertools import product
from types import ModuleType

import pytest
from device_file import load_device_file

GROUPS = (0, 1)
TILES = range(4, 40)  # from the fifth on all are fetched in the loop


@pytest.fixture
def schedule() -> ModuleType:
    return load_device_file("schedule")


def faults(s: ModuleType) -> list[str]:
    found = []
    for name, x, fetcher, reader in product("kv", TILES, GROUPS, GROUPS):
        fetched, read = getattr(s, f"{name}_fetched"), getattr(s, f"{name}_read")
        first, last = read(x, reader)
        if s.landed(fetched(x, fetcher)) >= first:
            found.append(f"group {reader} reads {name}({x}) in {first}, before group {fetcher} must have fetched it")
        if fetched(x + s.BUFFERS, fetcher) <= last:
            found.append(f"group {fetcher} overwrites {name}({x}), which group {reader} reads until {last}")
    return found


def test_every_tile_is_there_when_it_is_read_and_stays_until_then(schedule: ModuleType) -> None:
    assert faults(schedule) == []
    assert schedule.BUFFERS & (schedule.BUFFERS - 1) == 0


@pytest.mark.parametrize("change", [{"BUFFERS": 3}, {"K_AHEAD": 3}, {"V_AHEAD": 1}, {"IN_FLIGHT": 4}], ids=str)
def test_a_schedule_that_is_too_tight_is_seen(
    change: dict[str, int], schedule: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in change.items():
        monkeypatch.setattr(schedule, name, value)
    assert faults(schedule)


def test_groups_are_in_different_phases_at_all_times(schedule: ModuleType) -> None:
    """On every SIMD one wave is in QK while the other is in PV."""
    assert all(schedule.qk(j, 1) == schedule.pv(j, 0) and schedule.pv(j, 1) == schedule.qk(j + 1, 0) for j in TILES)
