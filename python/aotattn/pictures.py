"""Pictures of kernels, drawn from their own constants: `python -m aotattn.pictures` prints what the docs show."""

from collections.abc import Callable, Iterator
from typing import Any

from .arch import ARCHS
from .backends.source import device_function
from .kernels import DUAL_WAVE_TILES

REGISTERS = 256  # of a lane, with two waves on a SIMD


def _constant(file: str, name: str) -> Any:
    return device_function(f"kernels/attention/{file}.py:{name}")


def dual_wave_iteration() -> Iterator[str]:
    """Who fetches, who computes, in which buffers, in the intervals of one iteration; j is a multiple of BUFFERS."""
    buffers, k_ahead, v_ahead = (_constant("schedule", name) for name in ("BUFFERS", "K_AHEAD", "V_AHEAD"))
    qk, pv = (_constant("schedule", name) for name in ("qk", "pv"))

    def tile(of: str, ahead: int) -> str:
        return f"{of}(j{ahead:+}) {of}[{ahead % buffers}]".replace("(j+0)", "(j)")

    def phase(interval: int, late: int) -> tuple[str, str, str]:
        for j in (-1, 0, 1):
            name = f"(j{j:+})".replace("(j+0)", "(j)")
            if qk(j, late) == interval:
                return f"QK{name}", tile("k", j + 1), tile("v", j + v_ahead)
            if pv(j, late) == interval:
                return f"PV{name}", tile("v", j), tile("k", j + k_ahead)
        raise AssertionError(interval)

    yield f"{'interval':<10}{'waves 0-3':<11}{'multiply':<16}{'fetch':<16}{'waves 4-7':<11}{'multiply':<16}fetch"
    for interval in (0, 1):
        words = (f"2j{interval:+}".replace("+0", ""), *phase(interval, 0), *phase(interval, 1))
        widths = (10, 11, 16, 16, 11, 16, 16)
        yield "".join(f"{word:<{width}}" for word, width in zip(words, widths, strict=True)).rstrip()


def dual_wave_budgets() -> Iterator[str]:
    """LDS bytes of a workgroup and registers of a lane, by head_dim of the image."""
    elements: Callable[..., int] = _constant("tiles", "tile_elements")
    row_pad, column_pad = (_constant("tiles", name) for name in ("ROW_PAD", "COLUMN_PAD"))
    buffers = _constant("schedule", "BUFFERS")
    yield "| head_dim | block_n | k | v | LDS bytes | q | acc | scores | p | operands | registers |"
    yield "|---" * 11 + "|"
    for head_dim, (_, block_n, _, ahead, _) in DUAL_WAVE_TILES.items():
        k, v = (2 * elements(block_n, head_dim, pad) for pad in (row_pad, column_pad))
        lds = buffers * (k + v)
        lane = (head_dim // 4, head_dim // 2, block_n // 2, block_n // 4, 4 * ahead)
        assert lds <= ARCHS["gfx950"].lds_bytes
        assert sum(lane) <= REGISTERS
        columns = (head_dim, block_n, f"{buffers} x {k}", f"{buffers} x {v}", lds, *lane, f"{sum(lane)} of {REGISTERS}")
        yield f"| {' | '.join(map(str, columns))} |"


def page() -> str:
    return "\n".join(["```", *dual_wave_iteration(), "```", "", *dual_wave_budgets(), ""])


if __name__ == "__main__":
    print(page(), end="")
