"""The command line: exit codes, sentences, JSON; against the fake library where a device would be needed."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from aotattn import cli, device, runtime
from aotattn.bench.cases import Case
from aotattn.describe import UserError
from aotattn.knobs import KNOBS
from fake_library import FakeLibrary, fake_device, right, unwritten

GOOD, BAD = "triton/fwd/block_m=64", "triton/fwd/block_m=128"
CASE = "heads_q=4,seqlen_q=100,head_dim=64"


def fake(library: FakeLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    library.install(monkeypatch)
    monkeypatch.setattr(device, "open_device", lambda arch: fake_device())


def rows(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_help_needs_no_compiler_no_torch_and_no_sqlite_utils() -> None:
    program = (
        "import sys\nfrom aotattn.cli import main\ncode = main(['--help'])\n"
        "heavy = {'torch', 'triton', 'sqlite_utils', 'numpy'} & set(sys.modules)\n"
        "assert code == 0, code\nassert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in ("build", "explain", "verify", "bench", "profile", "knobs"))


def test_it_runs_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "aotattn", "knobs", "--json"], capture_output=True, text=True, check=True
    )
    assert [row["name"] for row in rows(done.stdout)] == list(KNOBS)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["explain", "head=3", "--arch", "gfx950"], "aotattn: case: no field 'head'"),
        (["explain", CASE, "--arch", "gfx900"], "aotattn: --arch gfx900: allowed are gfx950, gfx942, gfx1201, sm_90"),
        (["verify", "--cases", "all"], "aotattn: --cases all: allowed are quick, grid, pairs, handed, speed"),
        (["verify", "--filter", "mask=half"], "aotattn: filter: mask = half; allowed: none, causal, window"),
        (["bench", "--against", "jax"], "aotattn: --against jax: allowed are torch"),
        (["bench", "--record", "x"], "aotattn: --record needs --plans"),
        (["build", "--arch", "gfx950", "--filter", "x"], "aotattn: --filter: 'x' is no name=value"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(arguments) == 2
    said = capsys.readouterr()
    assert said.err.startswith(sentence)
    assert len(said.err.splitlines()) == 1
    assert said.out == ""


def test_an_unknown_option_is_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["verify", "--nonsense"]) == 2
    assert "--nonsense" in capsys.readouterr().err


def test_a_missing_library_says_how_to_build_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(runtime, "LIBRARY", "libnot_there.so")
    with pytest.raises(UserError, match="run make build"):
        runtime.library_directory()


def test_verify_passes_where_all_pass(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    fake(FakeLibrary({GOOD: right}), monkeypatch)
    assert cli.main(["verify", "--filter", "head_dim=16", "--json", "--seed", "5"]) == 0
    said = capsys.readouterr()
    assert "seed 5" in said.err
    found = rows(said.out)
    assert found
    for row in found:
        assert row.keys() >= {"case", "arch", "device", "backend", "error", "allowed", "passed"}
        assert row["passed"] is True
        assert row["error"] <= row["allowed"]


def test_verify_fails_where_one_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    fake(FakeLibrary({GOOD: right, BAD: unwritten}), monkeypatch)
    assert cli.main(["verify", "--filter", "head_dim=16"]) == 1
    said = capsys.readouterr()
    assert "FAILED op=attn_fwd" in said.out
    assert "never written" in said.out
    assert "1 passed, 1 failed, 0 skipped" in said.out.splitlines()[-1].lower()


def test_verify_without_any_case_that_ran_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake(FakeLibrary({GOOD: right}), monkeypatch)
    assert cli.main(["verify", "--filter", "head_dim=9999"]) == 1
    fake(FakeLibrary({}), monkeypatch)
    assert cli.main(["verify", "--filter", "head_dim=16"]) == 1
    assert cli.main(["verify", "--filter", "head_dim=16", "--allow-unsupported"]) == 1
    assert "0 passed, 0 failed, 1 skipped" in capsys.readouterr().out.lower()


def test_verify_of_one_backend_skips_what_it_does_not_take(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake(FakeLibrary({GOOD: right}), monkeypatch)
    assert cli.main(["verify", "--backend", "aiter", "--filter", "head_dim=16", "--json"]) == 1
    assert [row["passed"] for row in rows(capsys.readouterr().out)] == [None]


def test_explain_prints_what_the_library_answers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = {}

    def explain(op: str, params: Any, arch: str, **options: Any) -> dict[str, Any]:
        asked.update(op=op, arch=arch, **options, address=params.q.data, size=list(params.out.size))
        step = {"kernel": "fwd", "backend": "triton", "config": "block_m=64", "grid": [1, 1, 1]}
        candidates = [
            {"plan": "triton/fwd/block_m=64", "refused": None},
            {"plan": "triton/fwd/block_m=32", "refused": "too small"},
        ]
        answer = {"arch": arch, "status": "ok", "reason": "", "plan": [step], "provenance": "default order"}
        features = "dtype=f32,head_dim=64,head_dim_v=64,mask=none,padded_head=0"
        return answer | {"candidates": candidates, "features": features}

    monkeypatch.setattr(runtime, "explain", explain)
    assert cli.main(["explain", CASE, "--arch", "gfx950", "--plan", "triton/", "--json"]) == 0
    (row,) = rows(capsys.readouterr().out)
    assert row["case"] == str(Case.parse(CASE))
    assert row.keys() >= {"case", "arch", "status", "reason", "plan", "provenance"}
    assert asked["address"] % 16 == 0
    assert (asked["size"], asked["plan"], asked["compute_units"]) == ([1, 4, 100, 64], "triton/", 0)
    assert cli.main(["explain", CASE, "--arch", "gfx950"]) == 0
    text = capsys.readouterr().out
    assert all(word in text for word in ("ok", "block_m=64", "provenance: default order"))
    options = [word for part in CASE.split(",") for word in ("--" + part.replace("_", "-")).split("=")]
    assert cli.main(["explain", "--arch", "gfx950", *options]) == 0
    assert capsys.readouterr().out == text
    assert "refused: triton/fwd/block_m=32: too small\n" in text
    assert "declined: fwd_dual_wave: has no f32 matrix product\n" in text


def test_an_error_of_the_library_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def explain(*_: Any, **__: Any) -> dict[str, Any]:
        raise runtime.AotError(4, "no store for gfx950")

    monkeypatch.setattr(runtime, "status_name", lambda status: f"AOT_{status}")
    monkeypatch.setattr(runtime, "explain", explain)
    assert cli.main(["explain", CASE, "--arch", "gfx950"]) == 2
    assert capsys.readouterr().err == "aotattn: AOT_4: no store for gfx950\n"


def test_profile_needs_the_emulator(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    fake(FakeLibrary({GOOD: right}), monkeypatch)
    assert cli.main(["profile", CASE, "--seed", "1"]) == 2
    assert "aotattn: profile: fake (sm_90) is not the emulator" in capsys.readouterr().err


def test_bench_needs_a_clock(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    fake(FakeLibrary({GOOD: right}), monkeypatch)
    assert cli.main(["bench", CASE]) == 2
    assert "needs a GPU" in capsys.readouterr().err
