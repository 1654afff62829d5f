"""One emulated wave: set registers, run a few instructions, look at registers."""

import ctypes

import assembler
import numpy as np
from emulated_hip import WaveState

FULL = (1 << 64) - 1
EXEC, VCC, M0 = 126, 106, 124
covered = set()  # mnemonics that any test has run


class Wave:
    """Register views of one wave. `v` and `a` are [256, 64] u32, `s` is [128] u32, `lds` bytes."""

    def __init__(self, hip, execute=FULL):
        self.hip = hip
        self.state = WaveState()
        vector = np.frombuffer(self.state.vector, np.uint32).reshape(512, 64)
        self.v, self.a = vector[:256], vector[256:]
        self.s = np.frombuffer(self.state.scalar, np.uint32)
        self.lds = np.frombuffer(self.state.lds, np.uint8)
        self.set64(EXEC, execute)

    def set64(self, register, value):
        self.s[register], self.s[register + 1] = value & 0xFFFFFFFF, value >> 32

    def get64(self, register):
        return int(self.s[register]) | int(self.s[register + 1]) << 32

    @property
    def scc(self):
        return self.state.scc

    def run(self, source):
        words = assembler.words(source)
        self.hip.run_words(words, self.state)
        note(self.hip, words)
        return self


def note(hip, words):
    position = 0
    while position < len(words):
        text, size = hip.disassemble(words[position : position + 3])
        assert size, f"word {words[position]:#x}: {text}"
        covered.add(text.split()[0].removesuffix("_dpp").removesuffix("_sdwa"))
        position += size // 4


def address_of(array):
    return array.ctypes.data_as(ctypes.c_void_p).value
