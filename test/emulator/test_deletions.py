"""Every s_waitcnt and s_barrier of a forward kernel deleted in turn: what the checkers notice.

A deletion that is not noticed must be redundant: it changes no bit of the result in any order and
completion mode (another wait before the use already proves the data, or the code does not run).
"""

from itertools import product

import assembler
import pytest
import torch
from aotattn.bench.cases import Case
from attention_problem import Problem
from emulated_hip import HipError
from flydsl_forward import growing

NOP = 0xBF800000
KEYS = (136, 456)  # 3 tiles and 8: the FlyDSL kernel holds 4 at a time
GROUPS = {"head_dim": 128, "sm_scale": 1.0, "alignment": "bottom_right"}
SEQLENS = (200, 136)  # an even and an odd number of tiles end in different halves of the LDS
MODES = (
    {"order": "round_robin", "completion": "issue"},
    {"order": "to_barrier", "completion": "wait"},
    {"order": "reverse", "completion": "wait"},
    {"order": "random", "completion": "wait"},
    {"preload": 0, "completion": "wait"},
)


def targets(hip, image):
    start, _, words = assembler.text(image)
    at = 0
    while at < len(words):
        text, size = hip.disassemble(words[at : at + 3])
        if size and text.split()[0] in ("s_waitcnt", "s_barrier"):
            yield start + 4 * at, text
        at += max(size, 4) // 4


def outcome(hip, problem, image, **switches):
    hip.set(**switches)
    try:
        return [t.clone() for t in problem.run(image)]
    except HipError as error:
        return error.report


def verdict(hip, expected, image):
    """How one changed image was noticed, or why not; `expected` holds the results of each problem."""
    for problem, mode in product(expected, MODES):
        result = outcome(hip, problem, image, check="all", **mode)
        if isinstance(result, str):
            return f"found by a checker ({mode}): {result[:160]}"
    for (problem, right), mode in product(expected.items(), MODES):
        result = outcome(hip, problem, image, check="none", **mode)
        if not all(torch.equal(a, b) for a, b in zip(right, result, strict=True)):
            return f"WRONG AND MISSED by the checkers ({mode})"
    return "missed: redundant, no bit changes in any mode"


def sweep(hip, problems, image):
    """{text and address: verdict}"""
    expected = {problem: outcome(hip, problem, image) for problem in problems}
    return {
        f"{address:#x} {text}": verdict(hip, expected, assembler.patch(image, address, NOP))
        for address, text in targets(hip, image)
    }


def judge(verdicts, redundant):
    """Print the list; `redundant` says how many deletions of each kind may go unnoticed: docs/emulator.md says why."""
    missed = {name for name, verdict in verdicts.items() if not verdict.startswith("found")}
    for kind in redundant:
        total = [name for name in verdicts if kind in name]
        print(f"{kind}: {len(total) - sum(kind in name for name in missed)} of {len(total)} deletions found")
    for name, verdict in verdicts.items():
        print(f"  {name}: {verdict}")
    assert not [name for name in missed if verdicts[name].startswith("WRONG")]
    for kind, most in redundant.items():
        assert sum(kind in name for name in missed) <= most


@pytest.mark.slow
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_deleting_any_wait_or_barrier_is_noticed_or_harmless(hip, causal):
    problems = [Problem(hip, "bf16", 64, causal, seqlen_q=n) for n in SEQLENS]
    judge(sweep(hip, problems, problems[0].image), {"s_waitcnt": 2 - causal, "s_barrier": 0})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "redundant"),
    [
        (Case(heads_q=2, mask="none", **GROUPS), {"s_waitcnt": 4, "s_barrier": 4}),
        (Case(seqlen_q=300, mask="causal", **GROUPS), {"s_waitcnt": 2, "s_barrier": 3}),
    ],
    ids=["full", "causal"],
)
def test_so_it_is_in_the_forward_of_two_wave_groups(hip, case, redundant):
    """With scores that outgrow their reference in every tile, so that all code runs."""
    problems = [growing(hip, 30, case.but(seqlen_k=n)) for n in KEYS]
    judge(sweep(hip, problems, problems[0].image), redundant)
