"""Stores that are missing, damaged or of another version; the call that meets one refuses, the next looks again."""

import logging
import os
import sqlite3
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from aotattn import runtime
from aotattn.runtime import AotError
from lab import Lab, Problem, kernel, plan


def edit(path: Path, *statements: str) -> None:
    db = sqlite3.connect(path)
    db.execute("PRAGMA ignore_check_constraints = ON")  # damage is what the schema forbids
    for statement in statements:
        db.execute(statement)
    db.commit()
    db.close()


def truncate(path: Path) -> None:
    os.truncate(path, 5000)


def refusal(lab: Lab, platform: str = "cuda") -> AotError:
    with pytest.raises(AotError) as caught:
        lab.launch(Problem().parameters(), platform)
    assert lab.records() == []
    return caught.value


def test_no_store_for_the_arch_says_where_it_looked_and_what_is_there(lab: Lab) -> None:
    lab.store(plan(), arch="gfx1201")
    error = refusal(lab)
    assert error.name == "AOT_NO_STORE"
    assert f"no kernel store for sm_90; looked for {lab.stores}/aotattn-sm_90.db" in str(error)
    assert str(error).endswith("stores there: gfx1201")
    lab.store(plan())
    lab.launch(Problem().parameters())


DAMAGE: list[tuple[str, Callable[[Path], object], str, str]] = [
    ("empty", lambda p: p.write_bytes(b""), "AOT_BAD_STORE", "is no kernel store: it has no table meta"),
    (
        "text",
        lambda p: p.write_text("not a database, but long enough to be one" * 99),
        "AOT_BAD_STORE",
        "not a database",
    ),
    ("truncated", truncate, "AOT_BAD_STORE", "malformed"),
    ("other", lambda p: edit(p, "DROP TABLE meta"), "AOT_BAD_STORE", "it has no table meta"),
    ("no plans", lambda p: edit(p, "DROP TABLE plan"), "AOT_BAD_STORE", "no such table: plan"),
    (
        "schema",
        lambda p: edit(p, "PRAGMA user_version = 2"),
        "AOT_STORE_MISMATCH",
        "has schema version 2 (library version {version}), this library has 1 ({version})",
    ),
    (
        "version",
        lambda p: edit(p, "UPDATE meta SET value = '0.0.9' WHERE key = 'library_version'"),
        "AOT_STORE_MISMATCH",
        "belongs to library version 0.0.9, this library is {version}",
    ),
    (
        "arch",
        lambda p: edit(p, "UPDATE meta SET value = 'sm_80' WHERE key = 'arch'"),
        "AOT_STORE_MISMATCH",
        "holds kernels for sm_80, not for sm_90",
    ),
]


@pytest.mark.parametrize(("damage", "status", "sentence"), [d[1:] for d in DAMAGE], ids=[d[0] for d in DAMAGE])
def test_a_damaged_store_is_refused_and_looked_at_again(
    lab: Lab, damage: Callable[[Path], object], status: str, sentence: str
) -> None:
    damage(lab.store(plan()))
    for _ in range(2):
        error = refusal(lab)
        assert error.name == status
        assert sentence.format(version=runtime.version()) in str(error)


def test_a_mended_store_is_taken_by_the_next_call(lab: Lab) -> None:
    lab.store(plan(), library_version="9.9.9")
    assert refusal(lab).name == "AOT_STORE_MISMATCH"
    lab.store(plan())
    lab.launch(Problem().parameters())
    assert lab.launched() == ["block_64"]


IMAGES = [
    ("UPDATE image SET crc32 = crc32 + 1", "does not match its recorded checksum"),
    ("UPDATE image SET bytes = bytes + 1", "does not unpack to its recorded size"),
    ("UPDATE image SET bytes = bytes - 1", "does not unpack to its recorded size"),
    ("UPDATE image SET bytes = 0", "is empty or of no sensible size"),
    ("UPDATE image SET bytes = 0, crc32 = 0, data = x''", "is empty or of no sensible size"),
    ("UPDATE image SET data = x''", "does not unpack to its recorded size"),
    ("UPDATE image SET data = x'0011223344'", "does not unpack to its recorded size"),
    ("DELETE FROM image", "is missing"),
]


@pytest.mark.parametrize(("statement", "sentence"), IMAGES)
def test_a_damaged_image_is_refused(lab: Lab, statement: str, sentence: str) -> None:
    edit(lab.store(plan()), statement)
    error = refusal(lab)
    assert error.name == "AOT_BAD_STORE"
    assert sentence in str(error)
    assert "image " in str(error)
    assert lab.records("load") == []


def test_an_image_that_is_another_kernels_is_refused(lab: Lab) -> None:
    other = kernel("other").image
    edit(
        lab.store(plan()),
        f"UPDATE image SET bytes = {len(other)}, crc32 = {zlib.crc32(other)}, data = x'{zlib.compress(other).hex()}'",
    )
    assert "cuModuleGetFunction failed" in str(refusal(lab))


ROWS = [
    ("UPDATE plan SET requirements = 'seqlen_z 1 ==' || char(9) || 'why'", "'seqlen_z' is in no vocabulary"),
    ("UPDATE plan SET requirements = 'seqlen_q 1 ==' ", "gives no reason"),
    ("UPDATE plan SET requirements = '1 ==' || char(9) || 'why'", "'==' lacks an operand"),
    ("UPDATE plan SET requirements = 'sm_scale 1 ==' || char(9) || 'why'", "'sm_scale' is no integer"),
    ("UPDATE plan SET workspace = 'acc 64'", "workspace 'acc 64' is not '<name> <0 or 1> <bytes>'"),
    ("UPDATE plan SET workspace = 'acc'", "workspace 'acc' is not '<name> <0 or 1> <bytes>'"),
    ("UPDATE plan SET steps = 'x'", "steps 'x' are no numbers"),
    ("UPDATE plan SET steps = '7'", "has no kernel 7"),
    ("UPDATE plan SET steps = ''", "a plan of 0 steps; 1 to 8 are allowed"),
    ("UPDATE kernel SET arguments = 'q.pointer ptr 0'", "argument 'q.pointer ptr 0': the name is in no vocabulary"),
    ("UPDATE kernel SET arguments = 'q.ptr i64 0'", "the type is unknown or does not fit the name"),
    ("UPDATE kernel SET arguments = 'q.ptr ptr'", "it is not '<name> <type> <offset>'"),
    ("UPDATE kernel SET arguments = 'q.ptr ptr 99'", "it overlaps the one before or passes the block's end"),
    ("UPDATE kernel SET arguments = 'q tensormap 0 9 3 1 1 64'", "with a box of the tensor's rank"),
    ("UPDATE kernel SET arguments = 'x tensormap 0 9 3 1 1 64 64'", "there is no such tensor"),
    ("UPDATE kernel SET arguments = 'q tensormap 8 9 3 1 1 64 64'", "the offset is no multiple of 64"),
    ("UPDATE kernel SET argument_bytes = 9999", "an argument block of 9999 bytes; at most 2048 are allowed"),
    ("UPDATE kernel SET grid_x = 'seqlen_q block_m cdiv'", "'block_m' is in no vocabulary"),
    ("UPDATE kernel SET grid_y = ''", "leaves no single value"),
    ("UPDATE kernel SET grid_y = '1 2'", "leaves no single value"),
    ("UPDATE kernel SET threads = 0", "kernel fwd: threads = 0"),
    ("UPDATE kernel SET cluster = 99", "cluster = 99"),
]


@pytest.mark.parametrize(("statement", "sentence"), ROWS)
def test_a_row_that_does_not_parse_is_refused(
    lab: Lab, statement: str, sentence: str, caplog: pytest.LogCaptureFixture
) -> None:
    edit(lab.store(plan()), statement)
    error = refusal(lab)
    assert error.name == "AOT_BAD_STORE"
    assert sentence in str(error)
    assert refusal(lab).name == "AOT_BAD_STORE"
    warnings = [r.message for r in caplog.records if r.levelno == logging.WARNING and sentence in r.message]
    assert len(warnings) == 1


def test_parameters_that_the_image_does_not_have_are_refused(lab: Lab) -> None:
    lab.store(plan("block=64", kernel("block_64", image=b"block_64 8 8 4 4\n")))
    assert "block_64 takes 4 parameters, its recipe has 5" in str(refusal(lab))


@pytest.mark.parametrize(
    ("sizes", "sentence"),
    [
        ("8 8 4 8 8", "takes 8 bytes as parameter 3, its recipe has 4"),
        ("8 8 4 4 8 8", "takes more than the 5 parameters of its recipe"),
    ],
)
def test_parameters_of_other_sizes_are_refused(lab: Lab, sizes: str, sentence: str) -> None:
    lab.store(plan("block=64", kernel("block_64", image=f"block_64 {sizes}\n".encode())))
    error = refusal(lab)
    assert error.name == "AOT_BAD_STORE"
    assert sentence in str(error)


def test_the_store_is_found_through_a_symlink_and_by_the_knob(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.store(plan())
    link = lab.directory / "elsewhere" / runtime.LIBRARY
    link.parent.mkdir()
    link.symlink_to(lab.directory / runtime.LIBRARY)
    monkeypatch.setattr(runtime, "library_directory", lambda: link.parent)
    runtime.library.cache_clear()
    runtime.launch("attn_fwd", Problem().parameters(), runtime.call("cuda", 0))
    assert lab.launched() == ["block_64"]

    moved = lab.directory / "moved #1?%"
    lab.stores.rename(moved)
    monkeypatch.setenv("AOTATTN_STORE_DIR", str(moved))
    lab.launch(Problem(batch=3).parameters(), device=1)
    assert lab.launched() == ["block_64"] * 2


def test_where_the_knob_names_no_store_only_its_place_is_looked_at(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.store(plan())
    monkeypatch.setenv("AOTATTN_STORE_DIR", "/nowhere")
    assert "looked for /nowhere/aotattn-sm_90.db; stores there: none" in str(refusal(lab))
