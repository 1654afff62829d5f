"""Every s_waitcnt and s_barrier of a forward kernel deleted in turn: what the checkers notice.

A deletion that is not noticed must be redundant: it changes no bit of the result in any order and
completion mode (another wait before the use already proves the data, or the code does not run).
"""

import assembler
import pytest
import torch
from attention_problem import Problem
from emulated_hip import HipError

NOP = 0xBF800000
MODES = [("round_robin", "issue"), ("to_barrier", "wait"), ("reverse", "wait"), ("random", "wait")]


def targets(hip, image):
    start, _, words = assembler.text(image)
    at = 0
    while at < len(words):
        text, size = hip.disassemble(words[at : at + 3])
        if size and text.split()[0] in ("s_waitcnt", "s_barrier"):
            yield start + 4 * at, text
        at += max(size, 4) // 4


def outcome(hip, problem, image, order, completion, check):
    hip.set(order=order, completion=completion, check=check)
    try:
        return [t.clone() for t in problem.run(image)]
    except HipError as error:
        return error.report


def sweep(hip, problem, image):
    """{text and address: how it was noticed, or why it is redundant}"""
    hip.set()
    expected = problem.run(image)
    verdicts = {}
    for address, text in list(targets(hip, image)):
        changed = assembler.patch(image, address, NOP)
        name = f"{address:#x} {text}"
        verdicts[name] = "missed: redundant, no bit changes in any mode"
        for order, completion in MODES:
            result = outcome(hip, problem, changed, order, completion, "all")
            if isinstance(result, str):
                verdicts[name] = f"found by a checker ({order}, {completion}): {result[:160]}"
                break
        else:
            for order, completion in MODES:
                result = outcome(hip, problem, changed, order, completion, "none")
                if not all(torch.equal(a, b) for a, b in zip(expected, result, strict=True)):
                    verdicts[name] = f"WRONG AND MISSED by the checkers ({order}, {completion})"
    return verdicts


@pytest.mark.slow
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_deleting_any_wait_or_barrier_is_noticed_or_harmless(hip, causal):
    problem = Problem(hip, "bf16", 64, causal, seqlen_q=200)
    verdicts = sweep(hip, problem, problem.image)
    found = [name for name, verdict in verdicts.items() if verdict.startswith("found")]
    for kind in ("s_waitcnt", "s_barrier"):
        total = [name for name in verdicts if kind in name]
        print(f"{kind}: {sum(kind in name for name in found)} of {len(total)} deletions found")
    for name, verdict in verdicts.items():
        print(f"  {name}: {verdict}")
    assert not [name for name, verdict in verdicts.items() if verdict.startswith("WRONG")]
    assert len(found) >= len(verdicts) / 2
