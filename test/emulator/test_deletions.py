"""Every s_waitcnt and s_barrier of a forward kernel deleted in turn: what the checkers notice.

A deletion that is not noticed must be redundant: it changes no bit of the result in any order and
completion mode (another wait before the use already proves the data, or the code does not run).
"""

from itertools import product

import assembler
import pytest
import torch
from attention_problem import Problem
from emulated_hip import HipError

NOP = 0xBF800000
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


@pytest.mark.slow
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_deleting_any_wait_or_barrier_is_noticed_or_harmless(hip, causal):
    problems = [Problem(hip, "bf16", 64, causal, seqlen_q=n) for n in SEQLENS]
    verdicts = sweep(hip, problems, problems[0].image)
    found = [name for name, verdict in verdicts.items() if verdict.startswith("found")]
    for kind in ("s_waitcnt", "s_barrier"):
        total = [name for name in verdicts if kind in name]
        print(f"{kind}: {sum(kind in name for name in found)} of {len(total)} deletions found")
    for name, verdict in verdicts.items():
        print(f"  {name}: {verdict}")
    assert not [name for name, verdict in verdicts.items() if verdict.startswith("WRONG")]
    assert len(verdicts) - len(found) <= 2 - causal  # docs/emulator.md says why each is redundant
