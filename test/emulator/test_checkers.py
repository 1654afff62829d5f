"""Planted bugs: each checker reports its own, in words, and the clean version reports nothing."""

import assembler
import numpy as np
import pytest
from emulated_hip import HipError

# Two waves: load a value each, exchange through LDS, store. {0} places what a bug leaves out.
EXCHANGE = """
  s_load_dwordx2 s[4:5], s[0:1], 0x0
  s_load_dwordx2 s[6:7], s[0:1], 0x8
  v_lshlrev_b32 v1, 2, v0
  {scalar_wait}
  global_load_dword v2, v1, s[4:5]
  {load_wait}
  ds_write_b32 v1, v2
  {write_wait}
  {barrier}
  v_xor_b32 v3, 0x100, v1
  ds_read_b32 v4, v3
  {read_wait}
  global_store_dword v1, v4, s[6:7]
  s_endpgm
"""
CLEAN = {
    "scalar_wait": "s_waitcnt lgkmcnt(0)", "load_wait": "s_waitcnt vmcnt(0)", "write_wait": "s_waitcnt lgkmcnt(0)",
    "barrier": "s_barrier", "read_wait": "s_waitcnt lgkmcnt(0)",
}  # fmt: skip

# Global memory to LDS without registers, then read by the same wave.
TRANSFER = """
  s_load_dwordx2 s[4:5], s[0:1], 0x0
  s_load_dwordx2 s[12:13], s[0:1], 0x8
  v_lshlrev_b32 v1, 2, v0
  s_waitcnt lgkmcnt(0)
  s_mov_b32 s6, 256
  s_mov_b32 s7, 0x27000
  s_mov_b32 m0, 0
  s_nop 0
  buffer_load_dword v1, s[4:7], 0 offen lds
  {wait}
  ds_read_b32 v4, v1
  s_waitcnt lgkmcnt(0)
  global_store_dword v1, v4, s[12:13]
  s_endpgm
"""


def run(hip, source, threads=128, size=128, lds=512, **knobs):
    hip.set(**knobs)
    function = hip.function(assembler.kernel(source, pointers=2, lds=lds), "test_kernel")
    data = np.arange(size, dtype=np.uint32) + 1000
    source_buffer, out = hip.array(data), hip.empty(threads, np.uint32)
    hip.launch(function, (1, 1, 1), (threads, 1, 1), 0, source_buffer, out, 0)
    return data, out.numpy()


def expect(hip, source, *texts, check="all", **options):
    with pytest.raises(HipError) as caught:
        run(hip, source, check=check, **options)
    report = caught.value.report
    for text in ("kernel 'test_kernel'", "pc 0x", "wave", *texts):
        assert text in report, f"'{text}' is not in: {report}"


@pytest.mark.parametrize("completion", ["issue", "wait"])
@pytest.mark.parametrize("order", ["round_robin", "to_barrier", "reverse", "random"])
def test_clean_version_reports_nothing(hip, order, completion):
    data, out = run(hip, EXCHANGE.format(**CLEAN), order=order, completion=completion)
    assert (out == np.roll(data.reshape(2, 64), 1, axis=0).ravel()).all()


@pytest.mark.parametrize("check", ["all", "waits"])
@pytest.mark.parametrize("completion", ["issue", "wait"])
@pytest.mark.parametrize(
    ("missing", "texts"),
    [
        ("scalar_wait", ("reads s4", "s_load_dwordx2 s[4:5], s[0:1]", "lgkmcnt")),
        ("load_wait", ("reads v2", "global_load_dword v2", "vmcnt")),
        ("read_wait", ("reads v4", "ds_read_b32 v4", "lgkmcnt")),
    ],
)
def test_a_missing_wait_names_load_reader_and_counter(hip, missing, texts, completion, check):
    expect(hip, EXCHANGE.format(**{**CLEAN, missing: ""}), *texts, check=check, completion=completion)


@pytest.mark.parametrize("order", ["round_robin", "to_barrier", "reverse"])
def test_a_missing_barrier_is_a_race_between_two_waves(hip, order):
    source = EXCHANGE.format(**{**CLEAN, "barrier": ""})
    expect(hip, source, "LDS address", "by wave", "no barrier", check="races", order=order)


def test_a_write_still_under_way_at_the_barrier_is_a_race(hip):
    expect(hip, EXCHANGE.format(**{**CLEAN, "write_wait": ""}), "no barrier in between", check="races")


def test_lds_read_before_write(hip):
    source = EXCHANGE.format(**CLEAN).replace("ds_write_b32 v1, v2", "s_nop 0")
    expect(hip, source, "lane 0: LDS address 256 was never written", check="uninitialised")


def test_off_by_one_bound_of_a_global_store(hip):
    clean = EXCHANGE.format(**CLEAN)
    late = clean.replace("global_store_dword v1, v4, s[6:7]", "global_store_dword v1, v4, s[6:7] offset:4")
    expect(hip, late, "lane 63", "past the end of an allocation of 512 bytes", check="bounds")


def test_global_load_before_an_allocation(hip):
    early = EXCHANGE.format(**CLEAN).replace("v2, v1, s[4:5]", "v2, v1, s[4:5] offset:-4")
    expect(hip, early, "lane 0", "4 bytes before an allocation", check="bounds")


def test_lds_access_past_its_size(hip):
    expect(hip, EXCHANGE.format(**CLEAN), "LDS address 256", "outside the 256 bytes", lds=256, check="bounds")


def test_scratch_access_past_its_size(hip):
    source = "scratch_store_dword off, v0, off offset:16\ns_waitcnt vmcnt(0)\ns_endpgm"
    function = hip.function(assembler.kernel(source, scratch=16), "test_kernel")
    with pytest.raises(HipError, match="scratch address 16 is outside its 16 bytes"):
        hip.launch(function, (1, 1, 1), (64, 1, 1), 0, None, 0)


def test_a_register_never_written_is_reported_where_it_is_stored(hip):
    source = EXCHANGE.format(**CLEAN).replace(
        "global_store_dword v1, v4", "v_add_u32 v9, v8, v4\nglobal_store_dword v1, v9"
    )
    expect(hip, source, "stored v9", "v_add_u32 v9, v8, v4", check="uninitialised")


# v5 is never written: only the high half of the sum depends on it.
HIGH_HALF = """
  s_load_dwordx2 s[6:7], s[0:1], 0x8
  v_lshlrev_b32 v1, 2, v0
  v_mov_b32 v4, 7
  s_mov_b32 s3, 3
  v_mad_u64_u32 v[4:5], s[2:3], s3, v0, v[4:5]
  v_lshl_add_u64 v[4:5], v[4:5], 1, v[4:5]
  s_waitcnt lgkmcnt(0)
  global_store_dword v1, {stored}, s[6:7]
  s_endpgm
"""


def test_the_low_half_of_a_sum_does_not_depend_on_an_undefined_high_half(hip):
    _, out = run(hip, HIGH_HALF.format(stored="v4"))
    assert (out == 3 * (3 * np.arange(128) + 7)).all()
    expect(hip, HIGH_HALF.format(stored="v5"), "stored v5", check="uninitialised")


def test_an_undefined_address_and_branch_condition_are_reported(hip):
    clean = EXCHANGE.format(**CLEAN)
    expect(
        hip,
        clean.replace("ds_read_b32 v4, v3", "ds_read_b32 v4, v8"),
        "address v8",
        "never written",
        check="uninitialised",
    )
    branch = clean.replace("s_endpgm", "s_cbranch_vccz .Lout\n.Lout:\ns_endpgm")
    expect(hip, branch, "branch condition vcc_lo is undefined", check="uninitialised")


def test_memory_never_written_is_followed_through_registers(hip):
    hip.set()
    function = hip.function(assembler.kernel(EXCHANGE.format(**CLEAN), pointers=2, lds=512), "test_kernel")
    fresh, out = hip.empty(128, np.uint32), hip.empty(128, np.uint32)
    with pytest.raises(HipError, match=r"stored v4 .* is undefined"):
        hip.launch(function, (1, 1, 1), (128, 1, 1), 0, fresh, out, 0)


@pytest.mark.parametrize("completion", ["issue", "wait"])
def test_transfer_to_lds_must_be_waited_for(hip, completion):
    data, out = run(hip, TRANSFER.format(wait="s_waitcnt vmcnt(0)"), threads=64, completion=completion)
    assert (out == data[:64]).all()
    texts = ("still being filled by wave 0", "buffer_load_dword v1, s[4:7] offen lds", "vmcnt")
    expect(hip, TRANSFER.format(wait=""), *texts, threads=64, check="waits", completion=completion)


def test_late_completion_shows_old_values_without_any_checker(hip):
    """The second way to see a missing wait: results differ between the two completion modes."""
    source = EXCHANGE.format(**{**CLEAN, "read_wait": ""})
    results = [run(hip, source, check="none", completion=mode)[1] for mode in ("issue", "wait")]
    assert (results[0] != results[1]).any()


def test_a_register_the_kernel_does_not_have(hip):
    source = EXCHANGE.format(**CLEAN).replace("v_xor_b32 v3", "v_mov_b32 v70, 0\nv_xor_b32 v3")
    assert (run(hip, EXCHANGE.format(**CLEAN), check="registers")[1] > 0).all()
    function = hip.function(reduce_registers(assembler.kernel(source, pointers=2, lds=512, vgprs=72)), "test_kernel")
    with pytest.raises(HipError, match="does not allocate v70"):
        hip.launch(function, (1, 1, 1), (64, 1, 1), 0, hip.array(np.zeros(128, np.uint32)), hip.empty(64, np.uint32), 0)


def reduce_registers(image):
    """The descriptor's register count set to 64; it is 64 bytes in .rodata."""
    changed = bytearray(image)
    offset = next(offset for name, _, _, offset, _ in assembler.sections(image) if name == ".rodata")
    changed[offset + 48] = changed[offset + 48] & 0xC0 | 7
    return bytes(changed)


def test_switched_off_checkers_report_nothing(hip):
    for missing in CLEAN:
        if missing != "scalar_wait":
            run(hip, EXCHANGE.format(**{**CLEAN, missing: ""}), check="none")


def test_an_endless_loop_ends_at_the_limit(hip):
    hip.set(limit=10000)
    function = hip.function(assembler.kernel(".Lagain:\ns_branch .Lagain\ns_endpgm"), "test_kernel")
    with pytest.raises(HipError, match="more instructions than allowed"):
        hip.launch(function, (1, 1, 1), (64, 1, 1), 0, None, 0)
