"""verify, against a library whose faults are known."""

import json

import pytest
from aotattn.bench.cases import Case
from aotattn.bench.sets import case_set
from aotattn.verify import Result, candidates, verify
from fake_library import (
    FakeLibrary,
    base_two,
    coarse,
    fake_device,
    faulty,
    right,
    some_case,
    stray,
    unwritten,
)

GOOD = "triton/fwd/block_m=64"


def results(library: FakeLibrary, case: Case, monkeypatch: pytest.MonkeyPatch, **options: object) -> list[Result]:
    library.install(monkeypatch)
    device = fake_device()
    found = list(verify([case], device, seed=1, **options))  # type: ignore[arg-type]
    assert device.held == {}
    return found


def test_a_right_plan_passes_every_quick_case(monkeypatch: pytest.MonkeyPatch) -> None:
    library = FakeLibrary({GOOD: right})
    library.install(monkeypatch)
    device = fake_device()
    cases = case_set("quick")
    found = list(verify(cases, device, seed=7))
    assert [r.case for r in found] == cases
    assert [(r.case, r.reason) for r in found if not r.passed] == []
    assert all(r.plan == GOOD for r in found if not r.case.empty)


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (unwritten, "out max: NaN, Inf or never written"),
        (stray, "1 elements outside out were written"),
        (base_two, ""),
        (coarse, ""),
    ],
)
def test_a_fault_of_one_plan_is_seen_and_named(fault, says: str, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    good, bad = results(FakeLibrary({GOOD: right, "triton/fwd/block_m=128": fault}), some_case(), monkeypatch)
    assert good.passed
    assert not bad.passed
    assert bad.reason == says
    assert bad.plan.endswith("128")


def test_lse_is_judged_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    (result,) = results(FakeLibrary({GOOD: base_two}), some_case(), monkeypatch)
    assert result.check.startswith("lse")
    (result,) = results(FakeLibrary({GOOD: base_two}), some_case().but(lse=False), monkeypatch)
    assert result.passed


def test_a_small_case_runs_twice_on_fresh_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    library = FakeLibrary({GOOD: right})
    assert results(library, some_case(), monkeypatch)[0].passed
    assert library.launches == [GOOD, GOOD]


def test_a_plan_that_refuses_at_the_call_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    good, bad = results(FakeLibrary({GOOD: right, "triton/decline/": right}), some_case(), monkeypatch)
    assert good.passed
    assert not bad.passed
    assert bad.reason == "AOT_3: declined at the call"


def test_backend_and_plan_select(monkeypatch: pytest.MonkeyPatch) -> None:
    library = FakeLibrary({GOOD: right, "aiter/fwd/x=1": right, "triton/other/y=1": right})
    plans = [r.plan for r in results(library, some_case(), monkeypatch, backend="triton")]
    assert plans == [GOOD, "triton/other/y=1"]
    assert [r.plan for r in results(library, some_case(), monkeypatch, plan="triton/other")] == ["triton/other/y=1"]


@pytest.mark.parametrize(("required", "passed"), [(True, False), (False, None)])
def test_an_unsupported_case_is_reported_as_such(
    required: bool, passed: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    (result,) = results(FakeLibrary({}), some_case(), monkeypatch, required=required)
    assert result.passed is passed
    assert result.reason == "unsupported: no kernel takes it"


def test_a_fault_of_the_device_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeLibrary({GOOD: faulty}).install(monkeypatch)
    found = list(verify([some_case(), Case()], fake_device(), seed=1))
    assert [r.passed for r in found] == [False]
    assert found[0].reason == f"the device failed: {GOOD}: illegal address"


def test_an_empty_case_must_launch_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    library = FakeLibrary({GOOD: right})
    (result,) = results(library, Case(batch=0), monkeypatch)
    assert result.passed
    assert library.launches == []


def test_a_result_is_one_json_object(monkeypatch: pytest.MonkeyPatch) -> None:
    (result,) = results(FakeLibrary({GOOD: unwritten}), some_case(), monkeypatch)
    row = json.loads(json.dumps(result.row(), allow_nan=False))
    assert row["case"] == str(some_case())
    assert (row["arch"], row["device"], row["backend"], row["passed"]) == ("sm_90", "fake", "triton", False)
    assert row["error"] is None
    assert row["allowed"] > 0


def test_inputs_differ_from_seed_to_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeLibrary({GOOD: right}).install(monkeypatch)
    errors = [next(verify([some_case()], fake_device(), seed=seed)).error for seed in (1, 1, 2)]
    assert errors[0] == errors[1] != errors[2]


def test_candidates_that_were_refused_are_left_out() -> None:
    answer = {"candidates": [{"plan": "a/b/c", "refused": None}, {"plan": "d/e/f", "refused": "too wide"}]}
    assert candidates(answer) == ["a/b/c"]
