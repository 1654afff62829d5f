"""Many threads, a fork, and what a call costs the host."""

import ctypes
import os
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aotattn import runtime
from lab import BUILD, Lab, Problem, features, is_sanitized, kernel, plan, requirement, tuned

THREADS = 64


def at_once(work: Callable[[int], object]) -> list[BaseException]:
    """Let all threads start `work` at the same moment; what went wrong."""
    barrier, wrong = threading.Barrier(THREADS), []

    def run(number: int) -> None:
        try:
            barrier.wait()
            work(number)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wrong


def test_a_cold_start_of_many_threads_loads_once_a_device(lab: Lab) -> None:
    """A-53"""
    lab.store(plan("c"))
    lab.store(plan("a"), arch="gfx950")
    lab.tuning(tuned("c", 128, 256))
    where = (("cuda", 0), ("cuda", 1), ("hip", 0))

    def work(number: int) -> None:
        for _ in range(5):
            lab.launch(Problem().parameters(), *where[number % 3])

    assert at_once(work) == []
    assert len(lab.records("load")) == 3
    assert len(lab.records()) == runtime.launch_count() == THREADS * 5


def test_threads_with_problems_of_their_own_do_not_mix(lab: Lab) -> None:
    masks = ("none", "causal", "window")
    named = (("q.ptr", "ptr"), ("seqlen_k", "i64"))
    lab.store(*(plan(m, kernel(m, named), features=features(mask=m)) for m in masks))
    tuning = lab.tuning(tuned("none", 128, 256), path=lab.directory / "user.db")

    def work(number: int) -> None:
        params = Problem(seqlen_q=300, seqlen_k=1000 + number, mask=masks[number % 3], window_left=5).parameters()
        params.q.data = 0x10000 + 16 * number
        for turn in range(5):
            if number == 7:
                runtime.set_tuning_db(tuning if turn % 2 else None)
            lab.launch(params)
            assert runtime.explain("attn_fwd", params, "sm_90")["features"] == features(mask=masks[number % 3])

    assert at_once(work) == []
    seen = {(r.symbol.decode(), r.arguments) for r in lab.records()}
    assert seen == {
        (masks[n % 3], (0x10000 + 16 * n).to_bytes(8, "little") + (1000 + n).to_bytes(8, "little"))
        for n in range(THREADS)
    }


def test_each_thread_has_its_own_sentence(lab: Lab) -> None:
    lab.store(plan("c"))

    def work(number: int) -> None:
        for _ in range(20):
            status, sentence = lab.refusal(Problem(heads_q=100 + number, heads_k=99).parameters())
            assert number == 98 or sentence.startswith(f"attn_fwd: heads_q = {100 + number} is no multiple"), status

    assert at_once(work) == []


def in_child(work: Callable[[], None]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of fork beside threads, which is what is tested
        child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_child_of_fork_starts_anew(lab: Lab) -> None:
    lab.store(plan("c"), plan("d"))
    user = lab.tuning(tuned("d", 128, 256), path=lab.directory / "user.db")
    runtime.set_tuning_db(user)
    lab.launch(Problem().parameters())

    def work() -> None:
        assert runtime.launch_count() == 0
        lab.launch(Problem().parameters())  # the fake driver refuses what its parent loaded
        assert runtime.launch_count() == 1
        assert len(lab.records("load")) == 2
        assert lab.launched() == ["d", "d"]

    in_child(work)
    lab.launch(Problem().parameters())
    assert len(lab.records("load")) == 1
    assert runtime.launch_count() == 2


def test_a_fork_while_another_thread_loads_does_not_hang_the_child(lab: Lab) -> None:
    lab.store(plan("c"))
    lab.driver.fake_hold(1)
    loader = threading.Thread(target=lab.launch, args=(Problem().parameters(),))
    loader.start()
    while not lab.driver.fake_held():
        time.sleep(0.001)

    def work() -> None:
        lab.driver.fake_hold(0)
        lab.launch(Problem().parameters())

    in_child(work)
    lab.driver.fake_hold(0)
    loader.join()
    assert lab.launched() == ["c"]


def test_a_launch_of_what_is_loaded_does_not_wait_for_a_load(lab: Lab) -> None:
    lab.store(plan("c"))
    lab.launch(Problem().parameters())
    lab.driver.fake_hold(1)
    loader = threading.Thread(target=lab.launch, args=(Problem().parameters(), "cuda", 1))
    loader.start()
    while not lab.driver.fake_held():
        time.sleep(0.001)
    lab.launch(Problem().parameters())  # would hang
    assert lab.launched() == ["c", "c"]
    lab.driver.fake_hold(0)
    loader.join()
    assert len(lab.records()) == 3


def realistic(lab: Lab) -> tuple[Any, Any]:
    """A store and tuning rows as large as real ones; a call that has been made once."""
    aligned = requirement(
        " and ".join(
            f"{t}.ptr % 16 == 0 and {t}.stride.0 % 8 == 0 and {t}.stride.1 % 8 == 0 and {t}.stride.2 % 8 == 0"
            for t in ("q", "k", "v", "out")
        ),
        "not aligned",
    )
    named = [
        *((f"{t}.ptr", "ptr") for t in ("q", "k", "v", "out", "lse")),
        *((f"{t}.stride.{axis}", "i64") for t in ("q", "k", "v", "out") for axis in range(3)),
        *((n, "i32") for n in ("seqlen_q", "seqlen_k", "heads_q", "heads_k", "batch", "window_left", "window_right")),
        ("scale_log2", "f32"),
        ("null", "ptr"),
        ("null", "ptr"),
    ]
    lab.store(*(plan(f"c={n}", kernel(f"c{n}", named), requirements=(aligned,)) for n in range(4)))
    lab.tuning(*(tuned(f"c={(q + k) % 4}", 128 << q, 128 << k) for q in range(8) for k in range(8)))
    params, call = Problem().parameters(), runtime.call("cuda", 0)
    runtime.launch("attn_fwd", params, call)
    lab.driver.fake_record_launches(0)
    return params, call


def test_a_call_costs_the_host_little(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    """The budget is 1 us on a quiet machine; the bound here is loose. The fake launch does nothing."""
    params, call = realistic(lab)
    taken = lab.driver.fake_time(lab.library.aot_attn_fwd, runtime.byref(params), runtime.byref(call), 101)
    with capsys.disabled():
        print(f"\nhost cost of a call, driver launch excluded: {taken:.0f} ns")
    assert 0 < taken < 5000


def count_in_this_process(directory: str) -> int:
    """Allocations of 1000 calls of what is loaded; for a process that has count_allocations preloaded."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        lab = Lab(Path(directory), monkeypatch)
        params, call = realistic(lab)
        count = ctypes.CDLL(None).num_allocations
        before = count()
        lab.driver.fake_time(lab.library.aot_attn_fwd, runtime.byref(params), runtime.byref(call), 1)
        allocations = int(count() - before)
        lab.close()
        return allocations


def test_a_call_of_what_is_loaded_allocates_nothing(tmp_path: Path) -> None:
    if is_sanitized(BUILD / "lib" / runtime.LIBRARY):
        pytest.skip("the sanitizer has an allocator of its own")
    code = f"import test_processes; print(test_processes.count_in_this_process({str(tmp_path)!r}))"
    python_path = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    environment = os.environ | {
        "LD_PRELOAD": str(BUILD / "test" / "libcount_allocations.so"),
        "PYTHONPATH": python_path,
    }
    done = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True)
    assert int(done.stdout) < 100  # Python's own; 1000 calls were made
