"""The tuning record: text rows, what is composed from them, and the rules for what nobody has measured."""

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from aotattn.describe import UserError, Variant
from aotattn.kernels import KERNELS
from aotattn.ops.attn_fwd import attn_fwd
from aotattn.tuning.compose import compose
from aotattn.tuning.prior import RULE, first_choice, prior_rows, write_prior
from aotattn.tuning.rows import COLUMNS, Row, merge, read_rows, rows_path, write_rows

ROW = Row(
    features="dtype=bf16,head_dim=128",
    compute_units=132,
    seqlen_q=1024,
    seqlen_k=1024,
    batch_heads=32,
    backend="triton",
    kernel="fwd_flash",
    config="block_m=64",
    time_us=12.5,
    spread=0.01,
    error=0.5,
    provenance="measured",
    device="NVIDIA H200",
    revision="0.0 abc",
)
SLOWER = replace(ROW, config="block_m=128", time_us=20.0)
PRIOR = replace(ROW, config="block_m=256", time_us=None, spread=None, error=None, provenance="prior", device="")


def test_rows_read_back_sorted(tmp_path: Path) -> None:
    path = rows_path(tmp_path, "sm_90", "attn_fwd")
    far = replace(ROW, seqlen_q=16384)
    write_rows(path, [far, PRIOR, ROW, SLOWER])
    assert path.name == "sm_90-attn_fwd.tsv"
    assert path.read_text().splitlines()[0].split("\t") == list(COLUMNS)
    assert read_rows(path) == [SLOWER, PRIOR, ROW, far]
    assert read_rows(tmp_path / "none.tsv") == []


def test_a_file_is_written_only_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "sm_90-attn_fwd.tsv"
    write_rows(path, [ROW, SLOWER])
    before = path.stat().st_mtime_ns
    write_rows(path, [SLOWER, ROW])
    assert path.stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("line", "says"),
    [("a\tb", "2 columns, not 14"), ("\t".join(["x"] * 14), "compute_units = 'x' is no number")],
)
def test_a_wrong_line_is_named(line: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "sm_90-attn_fwd.tsv"
    write_rows(path, [ROW])
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(UserError, match=f"sm_90-attn_fwd.tsv:3: {says}"):
        read_rows(path)


def test_newer_rows_replace_and_better_provenance_wins() -> None:
    again = replace(ROW, time_us=11.0)
    guess = replace(ROW, provenance="prior", time_us=None)
    assert merge([ROW, SLOWER], [again]) == [again, SLOWER]
    assert merge([ROW], [guess]) == [ROW]
    assert merge([guess], [ROW]) == [ROW]


def choices(path: Path) -> list[sqlite3.Row]:
    db = sqlite3.connect(path)
    db.row_factory = sqlite3.Row
    try:
        assert db.execute("PRAGMA user_version").fetchone()[0] == 1
        return db.execute("SELECT * FROM choice").fetchall()
    finally:
        db.close()


def test_the_fastest_measured_plan_of_a_bin_is_chosen_and_rules_give_way(tmp_path: Path) -> None:
    write_rows(tmp_path / "sm_90-attn_fwd.tsv", [PRIOR, SLOWER, ROW, replace(PRIOR, seqlen_q=1)])
    write_rows(tmp_path / "gfx950-attn_fwd.tsv", [PRIOR])
    compose(tmp_path, tmp_path / "out" / "tuning.db")
    rows = choices(tmp_path / "out" / "tuning.db")
    assert [(r["operator"], r["arch"], r["seqlen_q"], r["config"]) for r in rows] == [
        ("attn_fwd", "gfx950", 1024, "block_m=256"),
        ("attn_fwd", "sm_90", 1024, "block_m=64"),
    ]
    assert (rows[1]["runner_up"], rows[1]["runner_up_time_us"]) == ("triton/fwd_flash/block_m=128", 20.0)
    assert (rows[1]["time_us"], rows[1]["spread"], rows[1]["device"]) == (12.5, 0.01, "NVIDIA H200")
    assert rows[0]["runner_up"] is None


def test_ties_are_broken_by_text(tmp_path: Path) -> None:
    write_rows(tmp_path / "sm_90-attn_fwd.tsv", [replace(ROW, config="b"), replace(ROW, config="a")])
    compose(tmp_path, tmp_path / "tuning.db")
    assert [r["config"] for r in choices(tmp_path / "tuning.db")] == ["a"]


def test_a_failed_composition_leaves_the_old_database(tmp_path: Path) -> None:
    write_rows(tmp_path / "sm_90-attn_fwd.tsv", [ROW])
    compose(tmp_path, tmp_path / "tuning.db")
    (tmp_path / "nodash.tsv").write_text("\t".join(COLUMNS) + "\n")
    with pytest.raises(UserError, match="the name must be"):
        compose(tmp_path, tmp_path / "tuning.db")
    assert len(choices(tmp_path / "tuning.db")) == 1
    assert sorted(p.name for p in tmp_path.glob("tuning*")) == ["tuning.db"]


def variants(*blocks: int) -> list[Variant]:
    functional = next(attn_fwd.functionals())
    kernel = next(iter(KERNELS.values()))
    return [Variant(kernel, "gfx950", functional, {"block_m": b}) for b in blocks]


def test_short_queries_get_small_tiles() -> None:
    group = variants(128, 64, 16)
    assert [first_choice(group, n)["block_m"] for n in (1, 16, 64, 100, 1000)] == [16, 16, 64, 128, 128]


def test_the_rule_writes_rows_only_where_it_differs_from_the_default_order() -> None:
    assert prior_rows("gfx950", variants(16)) == []
    rows = prior_rows("gfx950", variants(128, 16))
    assert {r.provenance for r in rows} == {"prior"}
    assert {(r.seqlen_q, r.config) for r in rows} >= {(1, "block_m=16"), (16384, "block_m=128")}
    assert all(r.time_us is None and r.compute_units == 256 for r in rows)


def test_rows_of_the_rules_are_replaced_and_measured_ones_kept(tmp_path: Path) -> None:
    path = rows_path(tmp_path, "gfx950", "attn_fwd")
    write_rows(path, [ROW, replace(PRIOR, revision=RULE)])
    write_prior(tmp_path, ["gfx950"])
    assert ROW in read_rows(path)
    assert replace(PRIOR, revision=RULE) not in read_rows(path)


def test_the_rows_in_the_repository_compose(tmp_path: Path) -> None:
    compose(Path(__file__).parents[2] / "tuning_db", tmp_path / "tuning.db")
    choices(tmp_path / "tuning.db")
