"""Broken input is an error and never a crash: random words, corrupt and truncated code objects, corrupt kernels.

`make sanitize` runs this file, for longer, against a build with address and undefined-behaviour checks.
"""

import ctypes
import os
import time

import assembler
import numpy as np
import pytest
from attention_problem import Problem
from emulated_hip import HipError
from one_wave import Wave
from test_hip_surface import STORE

SECONDS = float(os.environ.get("AOTATTN_FUZZ_SECONDS", "5"))
SEED = int(os.environ.get("AOTATTN_FUZZ_SEED", "1"))

# High halves of words that open each encoding, so that random words often decode.
OPENINGS = (0x7E00, 0x7C00, 0x0000, 0x2000, 0x8000, 0x9200, 0xBE80, 0xBF00, 0xBF80, 0xB000, 0xC000, 0xD000, 0xD200,
            0xD380, 0xD3D0, 0xD800, 0xD9C0, 0xDC00, 0xDC50, 0xE000, 0xE050, 0xE070)  # fmt: skip


def random_words(rng, count):
    words = rng.integers(0, 1 << 32, count, dtype=np.uint32)
    openings = rng.choice(OPENINGS, count).astype(np.uint32) << np.uint32(16)
    shaped = (openings | (words & np.uint32(0x01FFFFFF))).astype(np.uint32)
    return [int(x) for x in np.where(rng.random(count) < 0.8, shaped, words)]


def decodable(hip, rng):
    """{mnemonic: [words of one instruction]}, so that rare instructions are tried as often as common ones."""
    found = {}
    words = np.array(random_words(rng, 3 * 150_000)).reshape(-1, 3)
    plain = rng.random((2, len(words))) < 0.7
    words[plain[0], 0] &= ~0xFF00  # modifiers: most combinations are refused
    words[plain[1], 1] &= 0x1FFFFFFF
    for triple in words.tolist():
        text, size = hip.disassemble(triple)
        if size:
            found.setdefault(text.split()[0], []).append(triple[: size // 4])
    return found


def test_random_words_run_or_are_refused(hip):
    """Programs of instructions that decode, with random registers: whatever happens is a status."""
    hip.set(limit=2000)
    rng = np.random.default_rng(SEED)
    instructions = list(decodable(hip, rng).values())
    ran = refused = 0
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        program = []
        for k in rng.integers(0, len(instructions), 6):
            program += instructions[k][rng.integers(0, len(instructions[k]))]
        wave = Wave(hip)
        wave.v[:] = rng.integers(0, 1 << 32, wave.v.shape, dtype=np.uint32)
        wave.s[:] = rng.integers(0, 1 << 32, 128, dtype=np.uint32)
        wave.set64(126, int(rng.integers(0, 1 << 63)))
        try:
            hip.run_words([*program, 0xBF810000], wave.state)
            ran += 1
        except HipError:
            refused += 1
    print(f"random programs: {ran} ran to the end, {refused} were stopped")
    assert ran + refused > 10


def try_image(hip, image):
    try:
        function = hip.function(image, "test_kernel")
        out = hip.empty(64, np.uint32)
        hip.launch(function, (1, 1, 1), (64, 1, 1), 0, out, 1)
    except HipError:
        return False
    return True


def test_truncated_code_objects_are_refused(hip):
    """The loader asks the system for the bytes, so that a short mapping is an error."""
    image = assembler.kernel(STORE)
    page = 4096
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    area = libc.mmap(None, ctypes.c_size_t(4 * page), 3, 0x22, -1, ctypes.c_size_t(0))
    libc.mprotect(ctypes.c_void_p(area + 3 * page), ctypes.c_size_t(page), 0)
    for length in (*range(0, 256, 8), *range(256, len(image), 509)):
        start = area + 3 * page - length
        ctypes.memmove(start, image[:length], length)
        module = ctypes.c_void_p()
        assert hip.lib.hipModuleLoadData(ctypes.byref(module), ctypes.c_void_p(start)) != 0, length


def test_corrupt_code_objects_are_errors(hip):
    hip.set(limit=5000)
    image = assembler.kernel(STORE)
    rng = np.random.default_rng(SEED)
    good = tried = 0
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        changed = bytearray(image)
        for _ in range(int(rng.integers(1, 6))):
            changed[int(rng.integers(0, len(changed)))] = int(rng.integers(0, 256))
        good += try_image(hip, bytes(changed))
        tried += 1
    print(f"corrupt code objects: {tried} tried, {good} still ran")
    assert tried > 10


def corrupt(rng, hip, image):
    """The code object with a few words of its code changed: random, one bit off, left out, or doubled."""
    start, _, code = assembler.text(image)
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(0, len(code)))
        (random,) = random_words(rng, 1)
        word = rng.choice([random, code[at] ^ 1 << int(rng.integers(0, 32)), 0xBF800000, code[at - 1]])
        image = assembler.patch(image, start + 4 * at, int(word))
    return image


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_corrupt_kernels_run_or_are_refused(hip, causal):
    """Attention with wrong instructions, under any switches, profile included: whatever happens is a status."""
    problem = Problem(hip, "bf16", 64, causal, seqlen_q=100, block_m=64)
    rng = np.random.default_rng(SEED)
    switches = {
        "check": ["all", "none", "waits,races"], "order": ["round_robin", "to_barrier", "reverse", "random"],
        "completion": ["issue", "wait"], "simd": ["auto", "plain"], "cycles": ["0", "1"],
    }  # fmt: skip
    ran = refused = 0
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        hip.set(limit=100_000, **{name: rng.choice(values) for name, values in switches.items()})
        module = None
        try:
            module = hip.module(corrupt(rng, hip, problem.image))
            problem.run(module)
            ran += 1
        except HipError:
            refused += 1
        hip.profile()
        if module:
            hip.unload(module)
    print(f"corrupt kernels: {ran} ran to the end, {refused} were stopped")
    assert ran
    assert refused


@pytest.mark.parametrize(
    "junk", [b"", b"\0" * 4096, b"\x7fELF" + b"\xff" * 4096, b"__CLANG_OFFLOAD_BUNDLE__" + b"\xff" * 512]
)
def test_no_code_object_at_all(hip, junk):
    with pytest.raises(HipError):
        hip.module(junk)
