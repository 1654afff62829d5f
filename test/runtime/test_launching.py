"""What the driver gets: arguments byte by byte, launch facts, workspaces, contexts, captures, errors."""

import ctypes
import struct

import pytest
from aotattn import runtime
from aotattn.ops.attn_fwd import attn_fwd
from aotattn.runtime import AotError
from lab import Lab, Problem, features, kernel, plan, requirement

PROBLEM = Problem(
    batch=2, heads_q=8, heads_k=2, seqlen_q=100, seqlen_k=300, head_dim=64, head_dim_v=32, mask="window",
    alignment="bottom_right", window_left=17, window_right=3, sm_scale=-0.375,
)  # fmt: skip
# every word of the vocabulary, as PROBLEM has it
VALUES: dict[str, float] = {
    "q.ptr": 0x10000, "k.ptr": 0x20000, "v.ptr": 0x30000, "out.ptr": 0x40000, "lse.ptr": 0x50000,
    "q.bytes": 2 * 8 * 100 * 64 * 2, "k.bytes": 2 * 2 * 300 * 64 * 2, "v.bytes": 2 * 2 * 300 * 32 * 2,
    "out.bytes": 2 * 8 * 100 * 32 * 2, "lse.bytes": 2 * 8 * 100 * 4,
    "q.size.0": 2, "q.size.1": 8, "q.size.2": 100, "q.size.3": 64,
    "k.size.0": 2, "k.size.1": 2, "k.size.2": 300, "k.size.3": 64,
    "v.size.0": 2, "v.size.1": 2, "v.size.2": 300, "v.size.3": 32,
    "out.size.0": 2, "out.size.1": 8, "out.size.2": 100, "out.size.3": 32,
    "lse.size.0": 2, "lse.size.1": 8, "lse.size.2": 100,
    "q.stride.0": 51200, "q.stride.1": 6400, "q.stride.2": 64, "q.stride.3": 1,
    "k.stride.0": 38400, "k.stride.1": 19200, "k.stride.2": 64, "k.stride.3": 1,
    "v.stride.0": 19200, "v.stride.1": 9600, "v.stride.2": 32, "v.stride.3": 1,
    "out.stride.0": 25600, "out.stride.1": 3200, "out.stride.2": 32, "out.stride.3": 1,
    "lse.stride.0": 800, "lse.stride.1": 100, "lse.stride.2": 1,
    "batch": 2, "heads_q": 8, "heads_k": 2, "seqlen_q": 100, "seqlen_k": 300, "head_dim": 64, "head_dim_v": 32,
    "sm_scale": -0.375, "window_left": 17, "window_right": 3, "scale_log2": -0.375 * 1.4426950408889634,
    "scale_sign": -1, "bottom_right": 1, "compute_units": 132,
}  # fmt: skip
FORMATS = {"ptr": "<Q", "i64": "<q", "i32": "<i", "i1": "<b", "f32": "<f"}
FUNCTIONAL = features(head_dim=64, head_dim_v=32, mask="window")


def packed(named: list[tuple[str, str]], values: dict[str, float]) -> bytes:
    """The arguments at their natural places."""
    block = bytearray()
    for name, kind in named:
        value = struct.pack(FORMATS[kind], values[name])
        block += b"\0" * (-len(block) % len(value)) + value
    return bytes(block)


@pytest.mark.parametrize("width", ["i64", "i32"])
@pytest.mark.parametrize("platform", ["cuda", "hip"])
def test_the_whole_vocabulary_is_packed_as_described(lab: Lab, platform: str, width: str) -> None:
    vocabulary = attn_fwd.vocabulary()
    assert vocabulary.keys() == VALUES.keys()
    named = [(name, width if kind == "i64" else kind) for name, kind in vocabulary.items()]
    arch, compute_units = {"cuda": ("sm_90", 132), "hip": ("gfx950", 256)}[platform]
    expected = packed(named, VALUES | {"compute_units": compute_units})
    lab.store(plan("all", kernel("all", named), features=FUNCTIONAL), arch=arch, compute_units=str(compute_units))
    lab.launch(PROBLEM.parameters(), platform)
    padded = expected + b"\0" * (-len(expected) % 8)
    assert lab.records()[0].arguments == (expected if platform == "cuda" else padded)
    answer = runtime.explain("attn_fwd", PROBLEM.parameters(), arch)
    assert bytes.fromhex(answer["plan"][0]["arguments"]) == padded


def test_absent_tensors_flags_and_nulls_are_packed(lab: Lab) -> None:
    named = (("lse.ptr", "ptr"), ("bottom_right", "i1"), ("lse.stride.1", "i64"), ("null", "ptr"), ("head_dim", "i32"))
    lab.store(plan("x", kernel("x", named)))
    lab.launch(Problem(lse=False).parameters())
    assert lab.records()[0].arguments == bytes(32) + struct.pack("<i", 64)


def test_launch_facts_reach_cuda(lab: Lab) -> None:
    facts = {"threads": 384, "shared_bytes": 229912, "cluster": 2, "grid": ("seqlen_q 64 cdiv 2 *", "heads_q", "batch")}
    lab.store(plan("x", kernel("x", **facts)))
    lab.launch(Problem(batch=3, seqlen_q=65).parameters(), stream=0xABC0)
    (record,) = lab.records()
    assert list(record.grid) == [4, 8, 3]
    assert list(record.block) == [384, 1, 1]
    assert (record.shared_bytes, record.cluster, record.stream) == (229912, 2, 0xABC0)
    assert runtime.launch_count() == 1


def test_launch_facts_reach_hip(lab: Lab) -> None:
    lab.store(plan("x", kernel("x", threads=512, shared_bytes=163840)), arch="gfx950")
    lab.launch(Problem().parameters(), "hip", stream=0xABC0)
    (record,) = lab.records()
    assert list(record.grid) == [16, 2, 1]
    assert list(record.block) == [512, 1, 1]
    assert (record.platform, record.shared_bytes, record.stream) == (1, 163840, 0xABC0)


def test_hip_counts_threads_along_x(lab: Lab) -> None:
    lab.store(plan("x", kernel("x", grid=("16777216", "1", "1"), threads=256)), arch="gfx950")
    with pytest.raises(AotError, match="a grid of 16777216 along x"):
        lab.launch(Problem().parameters(), "hip")


def test_hip_has_neither_clusters_nor_descriptors(lab: Lab) -> None:
    maps = {"q": (9, 3, 1, 1, 64, 64)}
    lab.store(
        plan("cluster", kernel("cluster", cluster=2)),
        plan("map", kernel("map", (("q", "tensormap"),), maps=maps)),
        plan("plain"),
        arch="gfx950",
    )
    lab.launch(Problem().parameters(), "hip")
    assert lab.launched() == ["plain"]


def test_an_empty_grid_is_not_launched(lab: Lab) -> None:
    lab.store(plan("x", kernel("keys", grid=("seqlen_k", "1", "1")), kernel("rows")))
    lab.launch(Problem(seqlen_k=0).parameters())
    assert lab.launched() == ["rows"]


# ---- TMA descriptors -------------------------------------------------------------------------------------------------

WITH_MAP = kernel(
    "tma",
    (("out.ptr", "ptr"), ("k", "tensormap"), ("k.size.2", "i32"), ("k.stride.2", "i64")),
    maps={"k": (9, 3, 1, 1, 64, 32)},
)


def descriptor(record: bytes) -> tuple[int, ...]:
    return struct.unpack_from("<16Q", record, 64)


def test_a_descriptor_is_made_from_the_tensor(lab: Lab) -> None:
    lab.store(plan("tma", WITH_MAP))
    lab.driver.fake_set_version(13020)
    lab.launch(Problem().parameters())
    words = descriptor(lab.records()[0].arguments)
    assert words[0] == 0x20000
    assert words[1] == 4 | 1 << 21
    assert words[2:6] == (64, 256, 2, 2)  # innermost first
    assert words[6:9] == (128, 32768, 65536)  # bytes
    assert words[9:13] == (32, 64, 1, 1)
    assert words[13:15] == (9, 3)
    assert lab.records()[0].arguments[192:] == struct.pack("<iiq", 256, 0, 64)
    explained = runtime.explain("attn_fwd", Problem().parameters(), "sm_90")["plan"][0]["arguments"]
    assert bytes.fromhex(explained)[64:192] == bytes(128)


@pytest.mark.parametrize(("version", "seqlen_k", "bit"), [(13010, 128, 0), (13010, 4096, 1), (13020, 128, 1)])
def test_older_drivers_mistake_with_small_tensors_is_mended(lab: Lab, version: int, seqlen_k: int, bit: int) -> None:
    lab.store(plan("tma", WITH_MAP))
    lab.driver.fake_set_version(version)
    lab.launch(Problem(seqlen_k=seqlen_k).parameters())
    assert descriptor(lab.records()[0].arguments)[1] >> 21 == bit


def test_broadcast_and_single_axes_have_stride_0_in_the_descriptor(lab: Lab) -> None:
    lab.store(plan("tma", WITH_MAP))
    params = Problem(heads_k=1).parameters()
    params.k.stride[0] = 0
    params.k.stride[1] = 77
    lab.launch(params)
    assert descriptor(lab.records()[0].arguments)[6:9] == (128, 0, 0)


def test_a_tensor_that_no_descriptor_takes_falls_to_the_next_plan(lab: Lab) -> None:
    lab.store(plan("tma", WITH_MAP), plan("plain"))
    params = Problem().parameters()
    params.k.data = 0x20002
    lab.launch(params)
    lab.launch(Problem(seqlen_k=0).parameters())
    lab.launch(Problem().parameters())
    assert lab.launched() == ["plain", "plain", "tma"]


# ---- Workspaces ------------------------------------------------------------------------------------------------------


class Memory:
    """Host memory handed out as workspace, filled with 0xFF."""

    def __init__(self, shift: int = 0) -> None:
        self.shift = shift
        self.asked: list[int] = []
        self.kept: list[ctypes.Array[ctypes.c_char]] = []

    def allocate(self, size: int) -> int:
        self.asked.append(size)
        self.kept.append(ctypes.create_string_buffer(b"\xff" * (size + 512)))
        return (ctypes.addressof(self.kept[-1]) + 255) // 256 * 256 + self.shift


TWO_STEPS = plan(
    "x",
    kernel("first", (("workspace.acc.ptr", "ptr"), ("workspace.counter.ptr", "ptr"))),
    kernel("second", (("workspace.counter.ptr", "ptr"), ("workspace.delta.ptr", "ptr"), ("q.ptr", "ptr"))),
    workspace=("delta 0 seqlen_q 4 *", "counter 1 4", "acc 1 batch 300 *"),
)


@pytest.mark.parametrize("shift", [0, 16, 240])
def test_a_call_allocates_once_and_zeroes_once(lab: Lab, shift: int) -> None:
    lab.store(TWO_STEPS)
    memory = Memory(shift)
    lab.launch(Problem(batch=2, seqlen_q=100).parameters(), allocate=memory.allocate, stream=0x30)
    assert memory.asked == [256 + 768 + 512 + 256]
    (clear,) = lab.records("clear")
    first, second = lab.records()
    acc, counter = struct.unpack("<QQ", first.arguments)
    counter_too, delta, _ = struct.unpack("<QQQ", second.arguments)
    assert counter_too == counter
    assert all(piece % 256 == 0 for piece in (acc, counter, delta))
    assert (clear.address, clear.bytes, clear.stream) == (counter, 1024, 0x30)
    assert (acc, delta) == (counter + 256, counter + 1024)
    assert delta + 400 <= ctypes.addressof(memory.kept[0]) + len(memory.kept[0])
    assert [first.symbol, second.symbol] == [b"first", b"second"]
    assert runtime.launch_count() == 2


def test_a_workspace_of_no_bytes_is_not_allocated(lab: Lab) -> None:
    lab.store(plan("x", kernel("x", (("workspace.acc.ptr", "ptr"),)), workspace=("acc 1 seqlen_q 128 - ",)))
    lab.launch(Problem().parameters())
    assert lab.records()[0].arguments == bytes(8)
    assert lab.records("clear") == []


def test_a_missing_allocator_and_a_full_memory_are_told(lab: Lab) -> None:
    lab.store(TWO_STEPS)
    assert lab.refusal(Problem().parameters()) == (
        "AOT_BAD_ARGUMENT",
        "call.allocate is null; plan triton/fwd/x needs a workspace of 1536 bytes",
    )
    call = runtime.call("cuda", 0, allocate=lambda size: 0)
    assert lab.refusal(Problem().parameters(), call) == (
        "AOT_NO_MEMORY",
        "the caller's allocator has no 1792 bytes for plan triton/fwd/x",
    )
    assert lab.records() == []


@pytest.mark.parametrize("size", ["0 1 -", "1125899906842625", "4611686018427387904 4 *"])
def test_a_workspace_of_no_sensible_size_refuses_the_plan(lab: Lab, size: str) -> None:
    lab.store(plan("x", workspace=(f"acc 0 {size}",)), plan("y"))
    lab.launch(Problem().parameters())
    assert lab.launched() == ["y"]


# ---- Devices, contexts, captures, errors -----------------------------------------------------------------------------


def test_devices_of_several_archs_work_side_by_side(lab: Lab) -> None:
    lab.store(plan("c"))
    lab.store(plan("a"), arch="gfx950", compute_units="256")
    lab.store(plan("b"), arch="gfx942", compute_units="304")
    for _ in range(2):
        for platform, device in (("cuda", 0), ("hip", 1), ("cuda", 1), ("hip", 0)):
            lab.launch(Problem().parameters(), platform, device)
    assert [(r.platform, r.device, r.symbol) for r in lab.records()] == [
        (0, 0, b"c"),
        (1, 1, b"b"),
        (0, 1, b"c"),
        (1, 0, b"a"),
    ] * 2
    assert len(lab.records("load")) == 4
    assert runtime.device_info("cuda", 1) == ("sm_90", 114)
    assert runtime.device_info("hip", 0) == ("gfx950", 256)


def test_what_was_current_before_is_current_after(lab: Lab) -> None:
    lab.store(plan("c"))
    lab.store(plan("a"), arch="gfx942")
    current = ctypes.c_int(-1)
    lab.launch(Problem().parameters(), "cuda", 1)
    lab.launch(Problem().parameters(), "hip", 1)
    lab.fail("hipModuleLaunchKernel")
    assert lab.refusal(Problem().parameters(), runtime.call("hip", 1))[0] == "AOT_DEVICE_ERROR"
    lab.driver.hipGetDevice(ctypes.byref(current))
    assert current.value == 0
    assert lab.driver.fake_cuda_depth() == 0
    context = ctypes.c_void_p()
    lab.driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 1)
    lab.driver.cuCtxPushCurrent_v2(context)
    lab.launch(Problem().parameters(), "cuda", 1)
    lab.launch(Problem().parameters(), "cuda", 0)
    assert lab.driver.fake_cuda_depth() == 1


def test_a_first_call_inside_a_capture_loads(lab: Lab) -> None:
    lab.store(plan("c"))
    lab.store(plan("a"), arch="gfx950")
    lab.driver.fake_capture(1)
    lab.launch(Problem().parameters())
    lab.launch(Problem().parameters(), "hip")
    assert lab.launched() == ["c", "a"]
    assert lab.driver.fake_capture_mode() == 0


def test_preload_loads_what_a_call_would_launch(lab: Lab) -> None:
    lab.store(plan("c"), plan("d", requirements=(requirement("seqlen_q > 999", "short"),)))
    params = Problem().parameters()
    for tensor in (params.q, params.k, params.v, params.out, params.lse):
        tensor.data = None
    runtime.preload("attn_fwd", params, runtime.call("cuda", 0))
    assert len(lab.records("load")) == 1
    assert lab.records() == []
    lab.launch(Problem().parameters())
    assert len(lab.records("load")) == 1
    with pytest.raises(AotError, match="AOT_UNSUPPORTED"):
        runtime.preload("attn_fwd", Problem(head_dim=100).parameters(), runtime.call("cuda", 0))


def test_plans_of_one_image_load_it_once(lab: Lab) -> None:
    image = b"one 8\ntwo 8\n"
    steps = [kernel(symbol, (("q.ptr", "ptr"),), image=image) for symbol in ("one", "two")]
    lab.store(plan("x", *steps), plan("y", steps[1]))
    lab.launch(Problem().parameters())
    lab.launch(Problem().parameters(), plan="triton/fwd/y")
    assert lab.launched() == ["one", "two", "two"]
    assert len(lab.records("load")) == 1


@pytest.mark.parametrize(
    ("platform", "name", "status"),
    [
        ("cuda", "cuInit", "AOT_NO_DEVICE"),
        ("cuda", "cuDeviceGetCount", "AOT_DEVICE_ERROR"),
        ("cuda", "cuDevicePrimaryCtxRetain", "AOT_DEVICE_ERROR"),
        ("cuda", "cuCtxPushCurrent", "AOT_DEVICE_ERROR"),
        ("cuda", "cuModuleLoadData", "AOT_DEVICE_ERROR"),
        ("cuda", "cuModuleGetFunction", "AOT_DEVICE_ERROR"),
        ("cuda", "cuFuncSetAttribute", "AOT_DEVICE_ERROR"),
        ("cuda", "cuMemsetD8Async", "AOT_DEVICE_ERROR"),
        ("cuda", "cuLaunchKernelEx", "AOT_DEVICE_ERROR"),
        ("hip", "hipInit", "AOT_NO_DEVICE"),
        ("hip", "hipGetDeviceCount", "AOT_DEVICE_ERROR"),
        ("hip", "hipModuleLoadData", "AOT_DEVICE_ERROR"),
        ("hip", "hipModuleLaunchKernel", "AOT_DEVICE_ERROR"),
    ],
)
def test_a_failure_of_the_driver_is_told_and_the_next_call_works(
    lab: Lab, platform: str, name: str, status: str
) -> None:
    facts = {"shared_bytes": 65536}
    workspace = ("acc 1 64",)
    lab.store(plan("c", kernel("c", **facts), workspace=workspace))
    lab.store(plan("a", kernel("a", **facts), workspace=workspace), arch="gfx950")
    lab.fail(name, 719)
    memory = Memory()
    call = runtime.call(platform, 0, allocate=memory.allocate)
    said = lab.refusal(Problem().parameters(), call)
    assert said[0] == status
    assert f"{name} failed with" in said[1]
    assert "(719)" in said[1]
    assert lab.records() == []
    assert lab.driver.fake_pending_hip_error() == 0
    assert lab.driver.fake_cuda_depth() == 0
    assert lab.refusal(Problem().parameters(), call) == ("AOT_OK", "")


def test_where_a_launch_fails_the_clear_before_it_stays(lab: Lab) -> None:
    lab.store(TWO_STEPS)
    lab.fail("cuLaunchKernelEx", 719)
    status, sentence = lab.refusal(Problem().parameters(), runtime.call("cuda", 0, allocate=Memory().allocate))
    assert status == "AOT_DEVICE_ERROR"
    assert "cuLaunchKernelEx failed with" in sentence
    assert (len(lab.records("clear")), lab.records()) == (1, [])


def test_what_a_log_callback_throws_is_dropped(lab: Lab) -> None:
    lab.store(plan("a"), plan("b"))
    lab.library.aot_set_log(ctypes.cast(lab.driver.fake_throwing_log, runtime.LOG_FN), None)
    lab.fail("cuModuleLoadData")
    lab.launch(Problem().parameters())
    assert lab.launched() == ["b"]
    assert lab.driver.fake_num_thrown() == 2  # no tuning database, a plan that does not load


def test_without_a_driver_there_is_no_device(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.store(plan())
    monkeypatch.setenv("AOTATTN_CUDA_LIBRARY", "/nowhere/libcuda.so")
    status, sentence = lab.refusal(Problem().parameters())
    assert status == "AOT_NO_DEVICE"
    assert sentence.startswith("the driver library does not load: /nowhere/libcuda.so")
    monkeypatch.setenv("AOTATTN_CUDA_LIBRARY", str(lab.directory / runtime.LIBRARY))
    assert lab.refusal(Problem().parameters())[1].endswith("has no function cuInit; it is too old")
    monkeypatch.setenv("AOTATTN_CUDA_LIBRARY", str(lab.directory / "libfake_driver.so"))
    lab.launch(Problem().parameters())
