"""The GPU architectures, one row each."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Arch:
    """What the build, the emulator and the tuner need to know of a GPU architecture.

    lds_bytes      shared memory that one workgroup may use
    compute_units  of the part that the tuning rows were made for (SMs, CUs)
    matrix         family of its matrix instructions
    """

    name: str
    platform: str  # "hip" or "cuda"
    wave_size: int
    lds_bytes: int
    compute_units: int
    matrix: str

    @property
    def image_format(self) -> str:
        return "hsaco" if self.platform == "hip" else "cubin"


# Sources: CDNA4 and CDNA3 ISA guides, RDNA4 ISA guide, CUDA C programming guide (compute capability 9.0).
ARCHS = {
    a.name: a
    for a in (
        Arch("gfx950", "hip", 64, 163840, 256, "mfma"),
        Arch("gfx942", "hip", 64, 65536, 304, "mfma"),
        Arch("gfx1201", "hip", 32, 65536, 64, "wmma"),
        Arch("sm_90", "cuda", 32, 232448, 132, "wgmma"),
    )
}
