"""Timing in turn, ratios, and the record of plans; with a clock that is a function."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aotattn.bench.against import Row, check_cases, geomeans
from aotattn.bench.cases import Case
from aotattn.bench.host import _nothing
from aotattn.bench.plans import record, time_plans
from aotattn.bench.sets import case_set
from aotattn.bench.timing import Side, Timing, alternate, summary
from aotattn.describe import UserError
from aotattn.tuning.rows import read_rows
from fake_library import FakeLibrary, coarse, fake_device, right, some_case


def test_sides_alternate_in_shuffled_rounds() -> None:
    order: list[str] = []

    def measure(call: Callable[[], Any], times: int) -> float:
        name, us = call()
        order.append(name)
        return float(us)

    sides = {n: Side(n, lambda n=n, us=us: (n, us)) for n, us in (("a", 10.0), ("b", 20.0), ("c", 5000.0))}
    timings = alternate(sides, measure, rounds=8)
    assert {n: t.median_us for n, t in timings.items()} == {"a": 10.0, "b": 20.0, "c": 5000.0}
    rounds = [order[-3 * (i + 1) : len(order) - 3 * i] for i in range(8)]
    assert all(sorted(r) == ["a", "b", "c"] for r in rounds)
    assert len({tuple(r) for r in rounds}) > 1


def test_a_slow_side_is_called_less_often() -> None:
    calls: dict[str, list[int]] = {"fast": [], "slow": []}

    def measure(call: Callable[[], Any], times: int) -> float:
        calls[call()].append(times)
        return {"fast": 10.0, "slow": 1e6}[call()]

    alternate({n: Side(n, lambda n=n: n) for n in calls}, measure, rounds=2)
    assert calls["fast"][-1] == 400
    assert calls["slow"][-1] == 1


def test_spread_is_the_interquartile_range_over_the_median() -> None:
    assert summary([10.0, 10.0, 10.0, 10.0]) == Timing(10.0, 0.0)
    assert summary([8.0, 10.0, 12.0]).spread == pytest.approx(0.4)
    assert summary([7.0]).spread == 0.0


def test_geomeans_are_over_cases_that_both_sides_take() -> None:
    def rows(case: Case, **times: float) -> list[Row]:
        return [Row(case, "gpu", name, Timing(us, 0.0), None) for name, us in times.items()]

    a, b = Case(seqlen_q=1024), Case(seqlen_q=2048)
    summaries = geomeans([rows(a, aotattn=10, flash=20, cudnn=9), rows(b, aotattn=10, flash=80), rows(b, flash=1)])
    assert summaries == [
        {"peer": "flash", "cases": 2, "geomean": 4.0, "worst": 2.0, "worst_case": str(a)},
        {"peer": "cudnn", "cases": 1, "geomean": 0.9, "worst": 0.9, "worst_case": str(a)},
    ]


def test_a_row_has_the_promised_fields() -> None:
    row = Row(Case(seqlen_q=1024), "gpu", "aotattn", Timing(10.0, 0.02), 1.5).row()
    assert list(row) == ["case", "device", "side", "time_us", "tflops", "ratio_to_best_peer", "spread"]
    assert row["tflops"] == pytest.approx(4 * 1024 * 1024 * 64 / 10e-6 * 1e-12, abs=0.01)


def test_the_default_cases_are_the_speed_table() -> None:
    cases = case_set("speed")
    assert {c.batch * c.seqlen_q for c in cases} == {16384}
    assert {c.heads_q * c.head_dim for c in cases} == {2048}
    assert {(c.seqlen_q, c.head_dim, c.mask) for c in cases} >= {(1024, 64, "none"), (16384, 512, "causal")}
    check_cases(cases)


def test_cases_that_sdpa_cannot_ask_for_are_refused() -> None:
    for case in (
        Case(mask="window", window_left=3),
        Case(mask="causal", alignment="bottom_right", seqlen_k=128),
    ):
        with pytest.raises(UserError, match="scaled_dot_product_attention has no"):
            check_cases([case])


def test_plans_are_timed_after_their_numbers_and_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plans = {"triton/fwd/block_m=64": right, "triton/fwd/block_m=128": right, "triton/fwd/block_m=256": coarse}
    library = FakeLibrary(plans)  # type: ignore[arg-type]
    library.install(monkeypatch)
    time_us = {"triton/fwd/block_m=64": 20.0, "triton/fwd/block_m=128": 10.0}

    def measure(call: Callable[[], Any], times: int) -> float:
        call()
        return time_us[str(library.launches[-1])]

    device = fake_device()
    (timed,) = time_plans([some_case()], device, seed=1, measure=measure)
    assert device.held == {}
    assert [t.plan.rpartition("=")[2] for t in timed] == ["128", "64", "256"]
    assert timed[2].timing is None
    assert "allowed" in timed[2].reason
    path = record(tmp_path, device, timed, "revision")
    assert path.name == "sm_90-attn_fwd.tsv"
    rows = {row.config: row for row in read_rows(path)}
    assert {config: row.time_us for config, row in rows.items()} == {"block_m=64": 20.0, "block_m=128": 10.0}
    row = rows["block_m=64"]
    assert (row.seqlen_q, row.seqlen_k, row.batch_heads, row.provenance) == (70, 90, 8, "measured")
    assert (row.compute_units, row.device, row.revision, row.features) == (132, "fake", "revision", "dtype=bf16")


def test_calls_of_nothing_can_be_made_with_any_number_of_arguments() -> None:
    assert {_nothing(n)() for n in (2, 3, 11)} == {-1}
