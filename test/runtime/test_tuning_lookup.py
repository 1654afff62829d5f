"""Which row of the tuning database a problem gets, and what becomes of databases that cannot be read."""

import itertools
import logging
import math
import os
import random
from pathlib import Path
from typing import Any

import pytest
from aotattn import runtime
from aotattn.runtime import AotError
from lab import Lab, Problem, features, plan, requirement, tuned


def choice(lab: Lab, problem: Problem = Problem(), **how: Any) -> str:  # noqa: B008
    answer = runtime.explain("attn_fwd", problem.parameters(), "sm_90", **how)
    assert answer["status"] == "ok"
    return str(answer["plan"][0]["config"])


def sized(seqlen_q: int, seqlen_k: int, batch_heads: int = 16) -> Problem:
    return Problem(batch=1, heads_q=batch_heads, heads_k=1, seqlen_q=seqlen_q, seqlen_k=seqlen_k)


def test_without_a_database_the_stores_order_holds(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    lab.store(plan("a"), plan("b"))
    assert choice(lab) == choice(lab) == "a"
    (warning,) = [r.message for r in caplog.records]
    assert warning == f"no tuning database, default order of plans; looked for {lab.stores}/tuning.db"


NEAREST = [
    (sized(1024, 1024), "mid"),
    (sized(1000, 1000), "mid"),
    (sized(1440, 1440), "mid"),
    (sized(1456, 1456), "long"),
    (sized(1440, 1456), "mid"),
    (sized(1456, 1447), "long"),
    (sized(1 << 20, 1 << 20), "long"),
    (sized(1, 16384), "decode"),
    (sized(1, 1024), "decode"),
    (sized(20, 16384), "decode"),
    (sized(200, 200), "mid"),
    (sized(1024, 1024, 4096), "many"),
    (sized(900, 1100, 2000), "many"),
]


@pytest.mark.parametrize(("problem", "config"), NEAREST, ids=str)
def test_the_nearest_row_in_octaves_is_taken(lab: Lab, problem: Problem, config: str) -> None:
    lab.store(*(plan(c) for c in ("first", "mid", "long", "decode", "many")))
    lab.tuning(
        tuned("mid", 1024, 1024),
        tuned("long", 2048, 2048),
        tuned("decode", 1, 4096),
        tuned("many", 1024, 1024, 4096),
    )
    assert choice(lab, problem) == config
    assert choice(lab, problem) == config  # from the table


def test_rows_in_one_bin_are_told_apart(lab: Lab) -> None:
    lab.store(plan("a"), plan("b"), plan("c"))
    lab.tuning(tuned("b", 1000, 1024), tuned("c", 1024, 1024), tuned("a", 1000, 1000))
    assert [choice(lab, sized(*s)) for s in ((1000, 1024), (1024, 1024), (1000, 1000))] == ["b", "c", "a"]


BINS = [round(2 ** (n / 2)) for n in range(60)]
ROWS = {
    "octaves": list(itertools.product((256, 512, 1024), (512, 1024, 2048), (16, 32, 64))),
    "one a bin": list(itertools.product(BINS[16:20], BINS[18:22], BINS[6:10])),
    "many in a bin": [(1000 + n, 1000 - n, 16) for n in range(64)],  # more than a cell holds
    "anywhere": list({tuple(int(2 ** random.Random(f"{n}.{a}").uniform(0, 14)) for a in range(3)) for n in range(64)}),
}


@pytest.mark.parametrize("sizes", ROWS.values(), ids=ROWS)
def test_no_other_row_is_nearer_than_the_one_taken(lab: Lab, sizes: list[tuple[int, int, int]]) -> None:
    """In the middle between rows, where up to eight of a grid are equally near, as anywhere else."""
    lab.store(*(plan(f"row={n}") for n in range(len(sizes))))
    lab.tuning(*(tuned(f"row={n}", *size) for n, size in enumerate(sizes)))
    draw = random.Random(8)
    for _ in range(600):
        near = draw.choice(sizes)
        problem = [max(1, round(size * 2 ** draw.uniform(-1, 1))) for size in near]

        def away(row: tuple[int, ...], problem: list[int] = problem) -> float:
            return sum(abs(math.log2(a / b)) for a, b in zip(row, problem, strict=True))

        taken = sizes[int(choice(lab, sized(*problem)).removeprefix("row="))]
        assert away(taken) <= min(map(away, sizes)) + 1e-4, f"{problem} took {taken}"


def test_of_rows_equally_near_the_first_in_key_order_is_taken(lab: Lab) -> None:
    lab.store(plan("a"), plan("b"), plan("c"))
    lab.tuning(tuned("c", 4096, 1024), tuned("b", 1024, 1024))
    assert choice(lab, sized(2048, 1024)) == "b"


def test_each_dtype_gets_its_own_row(lab: Lab) -> None:
    """A-72"""
    lab.store(*(plan(c, features=features(dtype=d)) for d in ("bf16", "f16") for c in ("a", "b", "c")))
    lab.tuning(tuned("b", 1024, 1024), tuned("c", 1024, 1024, features=features(dtype="f16")))
    assert choice(lab) == "b"
    assert choice(lab, Problem(dtype="f16")) == "c"


def test_each_mask_and_arch_gets_its_own_row(lab: Lab) -> None:
    lab.store(*(plan(c, features=features(mask=m)) for m in ("none", "causal") for c in ("a", "b", "c")))
    lab.tuning(
        tuned("b", 128, 256, features=features(mask="causal")),
        tuned("c", 128, 256, arch="sm_80"),
        tuned("c", 128, 256, operator="attn_bwd"),
    )
    assert choice(lab) == "a"
    assert choice(lab, Problem(mask="causal")) == "b"


def test_each_number_of_compute_units_gets_its_rows_or_the_nearest(lab: Lab) -> None:
    """A-75"""
    lab.store(plan("a"), plan("b"), plan("c"))
    lab.tuning(tuned("b", 1024, 1024, compute_units=132), tuned("c", 128, 256, compute_units=100))
    assert choice(lab, compute_units=132) == "b"
    assert choice(lab, compute_units=100) == "c"
    assert choice(lab, compute_units=120) == "b"
    assert choice(lab, compute_units=116) == "c"  # as near to one as to the other: the smaller
    assert choice(lab) == "b"  # the store says 132
    lab.launch(Problem().parameters(), device=0)  # 132
    lab.launch(Problem().parameters(), device=1)  # 114
    assert lab.launched() == ["b", "c"]


def test_the_choice_says_where_it_comes_from(lab: Lab) -> None:
    lab.store(plan("a"), plan("b"), plan("c", features=features(mask="causal")))
    lab.tuning(
        tuned("b", 1024, 2048, runner_up="triton/fwd/a", runner_up_time_us=13.5),
        tuned("b", 64, 64, provenance="prior", device="", revision="rule:x", time_us=None),
    )

    def provenance(problem: Problem) -> str:
        return str(runtime.explain("attn_fwd", problem.parameters(), "sm_90")["provenance"])

    assert provenance(sized(1024, 2048)) == (
        "measured on NVIDIA H200, revision abc: 12.5 us, runner-up triton/fwd/a 13.5 us; "
        "row compute_units=132,seqlen_q=1024,seqlen_k=2048,batch_heads=16"
    )
    assert provenance(sized(60, 60)) == (
        "prior, revision rule:x; nearest row compute_units=132,seqlen_q=64,seqlen_k=64,batch_heads=16, "
        "for compute_units=132,seqlen_q=60,seqlen_k=60,batch_heads=16"
    )
    assert provenance(Problem(mask="causal", seqlen_q=256)) == "default order"


def test_a_tuned_plan_that_refuses_gives_way_to_the_order(lab: Lab) -> None:
    lab.store(plan("a"), plan("b", requirements=(requirement("seqlen_q > 999", "short"),)), plan("c"))
    lab.tuning(tuned("b", 1024, 1024))
    answer = runtime.explain("attn_fwd", Problem().parameters(), "sm_90")
    assert [c["plan"] for c in answer["candidates"]] == ["triton/fwd/b", "triton/fwd/a", "triton/fwd/c"]
    assert answer["plan"][0]["config"] == "a"
    assert answer["provenance"].startswith("default order; the tuned plan triton/fwd/b (measured on NVIDIA H200")


def test_a_row_for_a_plan_that_the_store_lacks_is_passed_over(lab: Lab) -> None:
    lab.store(plan("a"), plan("b"))
    lab.tuning(tuned("gone", 128, 256), tuned("b", 4096, 4096), tuned("a", 128, 256, 1, backend="flydsl"))
    assert choice(lab) == "b"


def garbage(path: Path) -> None:
    path.write_bytes(os.urandom(9000))


def half(path: Path) -> None:
    os.truncate(path, 4500)


def no_rows(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (garbage, "file is not a database"),
        (half, "database disk image is malformed"),
        (no_rows, "is no tuning database: it has no table choice"),
    ],
)
def test_a_damaged_database_is_told_once_and_passed_over(
    lab: Lab, damage: Any, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    lab.store(plan("a"), plan("b"), plan("c", features=features(mask="causal")))
    damage(lab.tuning(tuned("b", 128, 256)))
    assert choice(lab) == "a"
    assert choice(lab, Problem(mask="causal", seqlen_q=256)) == "c"
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.message.startswith(f"tuning database ignored: {lab.stores}/tuning.db")
    assert said in record.message


def test_an_older_database_is_passed_over(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    lab.store(plan("a"), plan("b"))
    lab.tuning(tuned("b", 128, 256), version=7)
    assert choice(lab) == "a"
    assert caplog.records[0].message.endswith("has tuning schema version 7, this library reads 1")


def test_a_users_rows_replace_those_of_the_functional(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.store(*(plan(c, features=features(mask=m)) for m in ("none", "causal") for c in ("a", "b", "c")))
    causal = features(mask="causal")
    lab.tuning(tuned("b", 128, 256), tuned("b", 128, 256, features=causal))
    user = lab.tuning(tuned("c", 9999, 9999), path=lab.directory / "user.db")
    monkeypatch.setenv("AOTATTN_TUNING_DB", str(user))
    assert choice(lab) == "c"  # though the installed row is nearer
    assert choice(lab, Problem(mask="causal", seqlen_q=256)) == "b"


def test_a_program_sets_a_database_for_problems_seen_and_unseen(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.store(plan("a"), plan("b"), plan("c"), plan("d"))
    lab.tuning(tuned("b", 128, 256))
    one = lab.tuning(tuned("c", 128, 256), path=lab.directory / "one.db")
    two = lab.tuning(tuned("d", 128, 256), path=lab.directory / "two.db")
    assert choice(lab) == "b"
    monkeypatch.setenv("AOTATTN_TUNING_DB", str(one))
    runtime.set_tuning_db(two)
    assert choice(lab) == "d"
    runtime.set_tuning_db(None)
    assert choice(lab) == "c"
    lab.launch(Problem().parameters())
    runtime.set_tuning_db(two)
    lab.launch(Problem().parameters())
    assert lab.launched() == ["c", "d"]


def test_a_set_database_that_cannot_be_read_is_refused_and_changes_nothing(lab: Lab) -> None:
    lab.store(plan("a"), plan("b"))
    good = lab.tuning(tuned("b", 128, 256), path=lab.directory / "good.db")
    runtime.set_tuning_db(good)
    bad = lab.directory / "bad.db"
    for status, write in (
        ("AOT_NO_STORE", lambda: None),
        ("AOT_BAD_STORE", lambda: garbage(bad)),
        ("AOT_BAD_STORE", lambda: no_rows(bad)),
        ("AOT_STORE_MISMATCH", lambda: lab.tuning(path=bad, version=2)),
    ):
        write()
        with pytest.raises(AotError, match=status):
            runtime.set_tuning_db(bad)
    assert choice(lab) == "b"
