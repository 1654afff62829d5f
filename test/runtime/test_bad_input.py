"""Every mistake of a caller has its status and its sentence; nothing reaches the driver."""

import ctypes
import math
from collections.abc import Callable
from typing import Any

import pytest
from aotattn import runtime
from lab import Lab, Problem, features, plan

Spoil = Callable[[Any], object]


def put(path: str, value: object) -> Spoil:
    """`put("q.size.2", 3)` sets params.q.size[2]."""

    def spoil(params: Any) -> None:
        *steps, last = path.split(".")
        for step in steps:
            params = params[int(step)] if step.isdigit() else getattr(params, step)
        if last.isdigit():
            params[int(last)] = value
        else:
            setattr(params, last, value)

    return spoil


BAD = [
    (put("struct_size", 0), "AOT_BAD_VERSION", "attn_fwd: params.struct_size = 0; 432 is this library's"),
    (put("struct_size", 1 << 20), "AOT_BAD_VERSION", "attn_fwd: params.struct_size = 1048576"),
    (put("mask", 3), "AOT_BAD_ARGUMENT", "attn_fwd: mask = 3; allowed are 0 (none), 1 (causal), 2 (window)"),
    (put("mask", -1), "AOT_BAD_ARGUMENT", "attn_fwd: mask = -1"),
    (put("sm_scale", math.nan), "AOT_BAD_ARGUMENT", "attn_fwd: sm_scale = nan is not finite"),
    (put("sm_scale", math.inf), "AOT_BAD_ARGUMENT", "attn_fwd: sm_scale = inf is not finite"),
    (put("q.rank", 3), "AOT_BAD_ARGUMENT", "attn_fwd: q.rank = 3; it must be 4"),
    (put("lse.rank", 4), "AOT_BAD_ARGUMENT", "attn_fwd: lse.rank = 4; it must be 3"),
    (put("k.dtype", 0), "AOT_BAD_ARGUMENT", "attn_fwd: k.dtype = 0; allowed are 1 (f32), 2 (f16), 3 (bf16)"),
    (put("k.dtype", 2), "AOT_BAD_ARGUMENT", "attn_fwd: k is f16, q is bf16; they must be of one dtype"),
    (put("out.dtype", 1), "AOT_BAD_ARGUMENT", "attn_fwd: out is f32, q is bf16"),
    (put("lse.dtype", 3), "AOT_BAD_ARGUMENT", "attn_fwd: lse is bf16; it must be f32"),
    (put("k.size.0", 3), "AOT_BAD_ARGUMENT", "attn_fwd: batch = 3 in k, but 2 in q"),
    (put("k.size.3", 32), "AOT_BAD_ARGUMENT", "attn_fwd: head_dim = 32 in k, but 64 in q"),
    (put("v.size.1", 1), "AOT_BAD_ARGUMENT", "attn_fwd: heads_k = 1 in v, but 2 in k"),
    (put("v.size.2", 7), "AOT_BAD_ARGUMENT", "attn_fwd: seqlen_k = 7 in v, but 256 in k"),
    (put("out.size.1", 4), "AOT_BAD_ARGUMENT", "attn_fwd: heads_q = 4 in out, but 8 in q"),
    (put("out.size.3", 32), "AOT_BAD_ARGUMENT", "attn_fwd: head_dim_v = 32 in out, but 64 in v"),
    (put("lse.size.2", 127), "AOT_BAD_ARGUMENT", "attn_fwd: seqlen_q = 127 in lse, but 128 in q"),
    (put("q.size.2", -1), "AOT_BAD_ARGUMENT", "attn_fwd: q.size[2] = -1 is negative"),
    (put("q.stride.1", -64), "AOT_BAD_ARGUMENT", "attn_fwd: q.stride[1] = -64 is negative"),
    (put("k.stride.3", 2), "AOT_BAD_ARGUMENT", "attn_fwd: k.stride[3] = 2; the last stride must be 1"),
    (put("q.stride.3", 0), "AOT_BAD_ARGUMENT", "attn_fwd: q.stride[3] = 0; the last stride must be 1"),
    (put("q.data", 0x10001), "AOT_BAD_ARGUMENT", "attn_fwd: q.data = 0x10001 is no multiple of its element's 2 bytes"),
    (put("lse.data", 0x50002), "AOT_BAD_ARGUMENT", "attn_fwd: lse.data = 0x50002 is no multiple of its element's 4"),
    (put("v.data", None), "AOT_BAD_ARGUMENT", "attn_fwd: v.data is null"),
    (put("out.data", None), "AOT_BAD_ARGUMENT", "attn_fwd: out.data is null"),
    (
        put("out.stride.0", 0),
        "AOT_BAD_ARGUMENT",
        "attn_fwd: out.stride[0] = 0 over 2 elements; an output may not overlap itself",
    ),
    (put("lse.stride.1", 0), "AOT_BAD_ARGUMENT", "attn_fwd: lse.stride[1] = 0 over 8 elements"),
    (put("q.stride.0", 1 << 62), "AOT_UNSUPPORTED", "attn_fwd: q spans 2^60 bytes or more"),
]


@pytest.mark.parametrize(("spoil", "status", "sentence"), BAD, ids=[sentence for _, _, sentence in BAD])
def test_a_spoilt_struct_is_refused(lab: Lab, spoil: Spoil, status: str, sentence: str) -> None:
    lab.store(plan())
    params = Problem().parameters()
    spoil(params)
    said = lab.refusal(params)
    assert said[0] == status
    assert said[1].startswith(sentence)
    assert lab.driver.fake_num_records() == 0


BAD_SIZES = [
    (Problem(heads_q=6, heads_k=4), "AOT_BAD_ARGUMENT", "attn_fwd: heads_q = 6 is no multiple of heads_k = 4"),
    (Problem(heads_k=0), "AOT_BAD_ARGUMENT", "attn_fwd: heads_k = 0; it must be at least 1"),
    (Problem(heads_q=0), "AOT_BAD_ARGUMENT", "attn_fwd: heads_q = 0; it must be at least 1"),
    (Problem(head_dim=0), "AOT_BAD_ARGUMENT", "attn_fwd: head_dim = 0; it must be at least 1"),
    (Problem(head_dim=513), "AOT_UNSUPPORTED", "attn_fwd: head_dim = 513; the largest head_dim is 512"),
    (Problem(head_dim_v=520), "AOT_UNSUPPORTED", "attn_fwd: head_dim_v = 520; the largest head_dim_v is 512"),
    (Problem(seqlen_q=2**31), "AOT_UNSUPPORTED", "attn_fwd: seqlen_q = 2147483648; the largest seqlen_q is 2146435072"),
    (Problem(seqlen_k=2**31), "AOT_UNSUPPORTED", "attn_fwd: seqlen_k = 2147483648; the largest seqlen_k is 2146435072"),
    (
        Problem(seqlen_q=2**30, seqlen_k=2**30),
        "AOT_UNSUPPORTED",
        "attn_fwd: seqlen_q + seqlen_k = 2147483648; the largest sum is 2146435072",
    ),
    (Problem(batch=2**31), "AOT_UNSUPPORTED", "attn_fwd: batch = 2147483648; the largest batch is 2147483647"),
    (Problem(batch=2**20, heads_q=2**12), "AOT_UNSUPPORTED", "attn_fwd: heads_q = 4096; the largest heads_q is 2047"),
    (Problem(head_dim_v=0), "AOT_UNSUPPORTED", "attn_fwd: head_dim_v = 0 with lse; lse alone is not computed"),
    (
        Problem(alignment="bottom_right", mask="causal"),
        "AOT_BAD_ARGUMENT",
        "attn_fwd: alignment = 2; allowed are 0 (top-left), 1 (bottom-right)",
    ),
]


@pytest.mark.parametrize(("problem", "status", "sentence"), BAD_SIZES, ids=[s for _, _, s in BAD_SIZES])
def test_sizes_that_cannot_be_are_refused(lab: Lab, problem: Problem, status: str, sentence: str) -> None:
    lab.store(plan())
    params = problem.parameters()
    if params.alignment:
        params.alignment = 2
    said = lab.refusal(params)
    assert said[0] == status
    assert said[1].startswith(sentence)
    assert lab.driver.fake_num_records() == 0


def test_null_structs_are_refused(lab: Lab) -> None:
    assert lab.refusal(None) == ("AOT_BAD_ARGUMENT", "attn_fwd: params is null")
    assert lab.refusal(Problem().parameters(), None) == ("AOT_BAD_ARGUMENT", "call is null")


@pytest.mark.parametrize(
    ("spoil", "status", "sentence"),
    [
        (put("struct_size", 3), "AOT_BAD_VERSION", "call.struct_size = 3; 48 is this library's"),
        (put("platform", 2), "AOT_BAD_ARGUMENT", "platform = 2; allowed are 0 (CUDA), 1 (HIP)"),
        (put("device", -1), "AOT_BAD_ARGUMENT", "device = -1; allowed are 0 to 63"),
        (put("device", 64), "AOT_BAD_ARGUMENT", "device = 64; allowed are 0 to 63"),
        (put("device", 5), "AOT_NO_DEVICE", "device = 5; the CUDA driver has 2"),
        (put("reserved", 1), "AOT_BAD_ARGUMENT", "call.reserved = 1; it must be 0"),
    ],
)
def test_a_spoilt_call_is_refused(lab: Lab, spoil: Spoil, status: str, sentence: str) -> None:
    lab.store(plan())
    call = runtime.call("cuda", 0)
    spoil(call)
    assert lab.refusal(Problem().parameters(), call) == (status, sentence)


def test_an_older_caller_has_missing_fields_taken_as_zero(lab: Lab) -> None:
    lab.store(plan())
    params = Problem().parameters()
    params.struct_size = type(params).lse.offset
    call = runtime.call("cuda", 0)
    call.struct_size = type(call).plan.offset
    assert lab.refusal(params, call) == ("AOT_OK", "")
    params.struct_size = type(params).out.offset
    assert lab.refusal(params, call)[1].startswith("attn_fwd: out.dtype = 0")


def test_a_newer_caller_is_served_if_what_it_adds_is_zero(lab: Lab) -> None:
    lab.store(plan())
    params = Problem().parameters()
    newer = ctypes.create_string_buffer(ctypes.sizeof(params) + 16)
    params.struct_size = len(newer)
    ctypes.memmove(newer, ctypes.byref(params), ctypes.sizeof(params))
    assert lab.refusal(newer) == ("AOT_OK", "")
    newer[-1] = 1
    status, sentence = lab.refusal(newer)
    assert status == "AOT_BAD_VERSION"
    assert sentence == (
        "attn_fwd: params.struct_size = 448: the caller is newer than this library (432) and sets a field "
        "that it does not know"
    )


def test_a_last_stride_counts_only_where_there_are_two_elements(lab: Lab) -> None:
    lab.store(plan(features=features(head_dim=16, padded_head=1)))
    params = Problem(head_dim=1).parameters()
    for tensor in (params.q, params.k, params.v, params.out):
        tensor.stride[3] = 0
    assert lab.refusal(params) == ("AOT_OK", "")


@pytest.mark.parametrize(
    "problem", [Problem(batch=0), Problem(seqlen_q=0), Problem(head_dim_v=0, lse=False), Problem(batch=0, seqlen_k=0)]
)
def test_an_empty_output_launches_nothing(lab: Lab, problem: Problem) -> None:
    assert lab.refusal(problem.parameters()) == ("AOT_OK", "")
    assert lab.driver.fake_num_records() == 0


def test_no_keys_still_launch(lab: Lab) -> None:
    lab.store(plan())
    params = Problem(seqlen_k=0).parameters()
    params.k.data = params.v.data = None
    lab.launch(params)
    assert len(lab.records()) == 1


def test_the_sentence_is_of_this_threads_last_call(lab: Lab) -> None:
    lab.store(plan())
    assert lab.library.aot_last_error() == b""
    assert lab.refusal(None)[1] == "attn_fwd: params is null"
    assert lab.refusal(Problem().parameters()) == ("AOT_OK", "")


def test_an_unknown_operator_is_named(lab: Lab) -> None:
    status = lab.library.aot_preload(b"attn", None, None)
    assert runtime.status_name(status) == "AOT_BAD_ARGUMENT"
    assert lab.library.aot_last_error() == b"op = 'attn'; known are: attn_fwd"
    assert runtime.status_name(99) == "unknown"
