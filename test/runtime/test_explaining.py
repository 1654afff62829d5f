"""aot_explain: which plan a problem gets and why, without a device."""

import ctypes
import json

import pytest
from aotattn import runtime
from aotattn.runtime import AotError
from lab import Lab, Problem, features, plan, requirement


def test_an_answer_has_everything_that_a_launch_has(lab: Lab) -> None:
    lab.store(plan("a", requirements=(requirement("batch > 9", "small batch"),)), plan("b"), plan("c"))
    lab.tuning()
    answer = runtime.explain("attn_fwd", Problem().parameters(), "sm_90")
    lab.launch(Problem().parameters())
    (record,) = lab.records()
    assert answer == {
        "op": "attn_fwd",
        "arch": "sm_90",
        "compute_units": 132,
        "status": "ok",
        "reason": "",
        "features": features(),
        "plan": [
            {
                "kernel": "fwd",
                "backend": "triton",
                "config": "b",
                "symbol": "b",
                "grid": list(record.grid),
                "threads": 128,
                "shared_bytes": 1024,
                "cluster": 1,
                "arguments": record.arguments.hex(),
            }
        ],
        "provenance": "default order",
        "candidates": [
            {"features": features(), "plan": "triton/fwd/a", "refused": "small batch"},
            {"features": features(), "plan": "triton/fwd/b", "refused": None},
            {"features": features(), "plan": "triton/fwd/c", "refused": None},
        ],
    }


def test_no_device_is_needed(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AOTATTN_CUDA_LIBRARY", "/nowhere")
    lab.store(plan("b"), arch="sm_77", compute_units="5")
    answer = runtime.explain("attn_fwd", Problem().parameters(), "sm_77")
    assert (answer["status"], answer["compute_units"]) == ("ok", 5)
    assert runtime.explain("attn_fwd", Problem().parameters(), "sm_77", compute_units=9)["compute_units"] == 9


def test_tensors_need_no_data(lab: Lab) -> None:
    lab.store(plan("b"))
    params = Problem().parameters()
    for tensor in (params.q, params.k, params.v, params.out):
        tensor.data = None
    assert runtime.explain("attn_fwd", params, "sm_90")["status"] == "ok"


def test_what_is_unsupported_has_a_reason(lab: Lab) -> None:
    lab.store(plan("a", requirements=(requirement("batch > 9", "small batch"),)))
    short = runtime.explain("attn_fwd", Problem().parameters(), "sm_90")
    assert (short["status"], short["plan"], short["provenance"]) == ("unsupported", [], "")
    assert short["reason"] == f"no plan takes attn_fwd {features()} on sm_90; triton/fwd/a of {features()}: small batch"
    wide = runtime.explain("attn_fwd", Problem(head_dim=520).parameters(), "sm_90")
    assert wide["status"] == "unsupported"
    assert wide["reason"] == "attn_fwd: head_dim = 520; the largest head_dim is 512"
    other = runtime.explain("attn_fwd", Problem(dtype="f16").parameters(), "sm_90")
    assert other["reason"].endswith("on sm_90; its store has none for these features")


def test_an_empty_problem_has_nothing_to_compute(lab: Lab) -> None:
    lab.store(plan("a"))
    answer = runtime.explain("attn_fwd", Problem(batch=0).parameters(), "sm_90")
    assert (answer["status"], answer["reason"], answer["plan"]) == ("ok", "nothing to compute", [])


def test_a_wanted_plan_is_explained(lab: Lab) -> None:
    lab.store(plan("a"), plan("b"))
    answer = runtime.explain("attn_fwd", Problem().parameters(), "sm_90", plan="triton/fwd/b")
    assert answer["plan"][0]["config"] == "b"
    assert answer["candidates"][0]["refused"] == "it was not asked for"


def test_an_unknown_arch_and_a_bad_struct_are_errors(lab: Lab) -> None:
    lab.store(plan("a"))
    with pytest.raises(AotError, match=r"AOT_NO_STORE: no kernel store for gfx900; looked for .*; stores there: sm_90"):
        runtime.explain("attn_fwd", Problem().parameters(), "gfx900")
    with pytest.raises(AotError, match=r"AOT_BAD_ARGUMENT: arch = '../x' is no name of an arch"):
        runtime.explain("attn_fwd", Problem().parameters(), "../x")
    with pytest.raises(AotError, match="AOT_BAD_ARGUMENT: attn_fwd: heads_q = 6 is no multiple of heads_k = 4"):
        runtime.explain("attn_fwd", Problem(heads_q=6, heads_k=4).parameters(), "sm_90")


def test_a_text_cut_short_says_what_it_needs(lab: Lab) -> None:
    lab.store(plan("a"))
    params, needed = Problem().parameters(), ctypes.c_size_t()
    text = ctypes.create_string_buffer(b"x" * 39)

    def explain(size: int) -> str:
        arguments = (b"attn_fwd", ctypes.byref(params), b"sm_90", 0, None, text, size, ctypes.byref(needed))
        return runtime.status_name(lab.library.aot_explain(*arguments))

    assert explain(40) == "AOT_BAD_ARGUMENT"
    assert len(text.value) == 39
    assert lab.library.aot_last_error().decode() == f"text has room for 40 bytes; it needs {needed.value}"
    text = ctypes.create_string_buffer(needed.value)
    assert explain(needed.value) == "AOT_OK"
    assert json.loads(text.value)["status"] == "ok"


def test_names_are_quoted_as_json_wants(lab: Lab) -> None:
    lab.store(plan('a"b\\c', requirements=(requirement("batch > 9", "a\x01b"),)))
    answer = runtime.explain("attn_fwd", Problem().parameters(), "sm_90")
    assert answer["candidates"] == [{"features": features(), "plan": 'triton/fwd/a"b\\c', "refused": "a\x01b"}]


def test_the_build_describes_itself(lab: Lab) -> None:
    info = runtime.build_info()
    assert info["version"] == runtime.version()
    assert info["schema_version"] == 1
    assert info["operators"] == ["attn_fwd"]
    assert {"revision", "compiler"} <= info.keys()
