"""Commands on the emulator, in processes of their own: without a GPU they take it by themselves."""

import json
import os
import subprocess
import sys

import pytest
import torch
from aotattn import device, runtime
from aotattn.bench.cases import Case
from aotattn.bench.profile import table
from aotattn.cli import main
from aotattn.device import Device
from aotattn.verify import failure

CASE = "heads_q=2,heads_k=1,seqlen_q=70,seqlen_k=90,head_dim=128,mask=causal"
on_emulator = [
    pytest.mark.emu,
    pytest.mark.skipif(torch.cuda.is_available(), reason="torch has a GPU, so the emulator is not taken"),
]


def command(*arguments: str, **switches: str) -> subprocess.CompletedProcess[str]:
    """Run the module, no HIP library named; skips where the emulator or the store is not built.

    switches   of the emulator, docs/emulator.md
    """
    directory = runtime.library_directory()
    for path in (device.emulator_library(), directory / "aotattn" / "aotattn-gfx950.db"):
        if not path.exists():
            pytest.skip(f"{path} is not built")
    environment = {n: v for n, v in os.environ.items() if n not in ("AOTATTN_HIP_LIBRARY", "AOTATTN_STORE_DIR")}
    environment |= {f"AOTATTN_EMU_{name}": value for name, value in switches.items()}
    return subprocess.run(
        [sys.executable, "-m", *arguments], capture_output=True, text=True, check=False, env=environment
    )


class TestOnTheEmulator:
    pytestmark = on_emulator

    def test_verify_takes_it_and_passes(self) -> None:
        done = command("aotattn", "verify", "--arch", "gfx950", "--filter", "head_dim=48|128", "--json")
        assert done.returncode == 0, done.stdout + done.stderr
        found = [json.loads(line) for line in done.stdout.splitlines()]
        assert {(row["arch"], row["device"]) for row in found} == {("gfx950", "emulated gfx950")}

    @pytest.mark.slow
    def test_every_pair_of_values_passes(self) -> None:
        done = command("aotattn", "verify", "--arch", "gfx950", "--cases", "pairs")
        assert done.returncode == 0, done.stdout + done.stderr

    @pytest.mark.slow
    def test_late_results_in_random_order_pass_too(self) -> None:
        """Of the kernels that place waits and barriers by hand."""
        arguments = ("verify", "--arch", "gfx950", "--backend", "flydsl", "--json")
        done = command("aotattn", *arguments, ORDER="random", SEED="7", COMPLETION="wait")
        assert done.returncode == 0, done.stdout + done.stderr
        found = [json.loads(line) for line in done.stdout.splitlines()]
        assert {row["backend"] for row in found if row["plan"]} == {"flydsl"}

    def test_profile_counts_and_models(self) -> None:
        done = command("aotattn", "profile", CASE, "--arch", "gfx950", "--seed", "1", "--json")
        assert done.returncode == 0, done.stderr
        (row,) = (json.loads(line) for line in done.stdout.splitlines())
        assert (row["case"], row["arch"], row["launches"]) == (str(Case.parse(CASE)), "gfx950", 1)
        assert row["note"] == row["modelled"]["note"] == "modelled, not measured"
        assert row["plan"].count("/") == 2
        assert row["instructions"] == sum(row["by_class"].values()) > 0
        clocks = row["modelled"]["clocks"]
        assert 0 < clocks["low"] <= clocks["median"] <= clocks["high"]
        figures = {row["figure"] for row in table(row)}
        shares = ("mfma_busy_steady", "vector_port_share", "lds_share", "memory_path_share")
        assert {f"modelled.{name}" for name in shares} | {"lds_conflict_share"} <= figures
        stalls = {f.removeprefix("modelled.stalled_share_of_wave_time.") for f in figures if "stalled" in f}
        assert {"vector_port", "matrix_pipe", "packed_behind_matrix", "lgkmcnt", "barrier"} <= stalls

    def test_a_plan_that_nobody_has_is_the_callers_mistake(self) -> None:
        done = command("aotattn", "profile", CASE, "--plan", "nobody/")
        assert done.returncode == 2
        assert "aotattn: profile: no plan takes op=attn_fwd" in done.stderr
        assert done.stdout == ""

    def test_the_demo_runs_attention(self) -> None:
        done = command("aotattn.demo")
        assert done.returncode == 0, done.stderr
        assert "F.scaled_dot_product_attention on emulated gfx950" in done.stdout
        assert "passed" in done.stdout
        assert "modelled, not measured" in done.stdout


def test_an_empty_case_has_no_profile(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    class Emulator(device.EmulatedDevice):
        def __init__(self) -> None:
            Device.__init__(self, "hip", 0, "gfx950", 256, "emulated gfx950", "cpu")

    monkeypatch.setattr(device, "open_device", lambda arch: Emulator())
    assert main(["profile", "seqlen_q=0", "--seed", "1"]) == 2
    assert "is empty" in capsys.readouterr().err


def test_the_table_says_of_each_figure_whether_it_is_modelled() -> None:
    profile = {
        "case": "x",
        "barriers": 3,
        "occupancy": {"vgprs": 96},
        "modelled": {"clocks": {"median": 20.0, "low": 19.5, "high": 21.25}, "clocks_by_draw": [19.5, 20.0, 21.25]},
    }
    assert [tuple(row.values()) for row in table(profile)] == [
        ("barriers", "3", "counted"),
        ("occupancy.vgprs", "96", "counted"),
        ("modelled.clocks", "20 (19.5 to 21.25)", "modelled"),
    ]


def test_only_a_failure_of_the_device_carries_its_report(monkeypatch: pytest.MonkeyPatch) -> None:
    class Reporting(Device):
        def report(self) -> str:
            return "kernel 'k' pc 0x10: stray load"

    names = {3: "AOT_UNSUPPORTED", 8: "AOT_DEVICE_ERROR"}
    monkeypatch.setattr(runtime, "status_name", names.__getitem__)
    reporting = Reporting("hip", 0, "gfx950", 256, "x", "cpu")
    assert failure(runtime.AotError(8, "launch failed"), reporting).endswith(
        "launch failed; kernel 'k' pc 0x10: stray load"
    )
    assert failure(runtime.AotError(3, "no kernel"), reporting) == "AOT_UNSUPPORTED: no kernel"
