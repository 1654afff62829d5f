"""Which keys a row sees, and in which order a workgroup walks the tiles of keys.

Row i is level with key i + shift.  "none": it sees all keys; "causal": those up to i + shift; "window": those from
i + shift - window_left to i + shift + window_right, both >= 0.
"""
import flydsl.expr as fx
import tiles
from flydsl.expr import const_expr, range_constexpr
from lanes import vector
from softmax import MASKED


def minimum(a, b):
    return (a < b).select(a, b)


def maximum(a, b):
    return (a > b).select(a, b)


class Mask:
    """The mask of a wave's 32 rows from first_row on; two lanes share a row."""

    def __init__(self, MASK, lane, first_row, seqlen_k, shift, window_left, window_right):
        self.MASK = MASK
        row = first_row + (lane & 31) + shift
        half = tiles.accumulator_row(lane, 0)  # the part of a key's index that the lane makes
        self.begin, self.end = None, seqlen_k - half
        if const_expr(MASK != "none"):
            self.end = minimum(row + window_right + 1, seqlen_k) - half
        if const_expr(MASK == "window"):
            self.begin = row - window_left - half

    def apply(self, accumulators, first_key):
        """Accumulators of scores, 32 keys each, those that the row does not see MASKED."""
        end = self.end - first_key
        begin = self.begin - first_key if const_expr(self.MASK == "window") else None

        def seen(key):
            if const_expr(self.MASK == "window"):
                return (key < end) & (key >= begin)
            return key < end

        def kept(part):
            for i in range_constexpr(16):
                key = 32 * part + tiles.accumulator_row(0, i)
                yield seen(key).select(accumulators[part][i], fx.Float32(MASKED))

        return [vector(kept(part)) for part in range_constexpr(len(accumulators))]


class Walk:
    """The order of a workgroup's tiles of keys: first those that all its rows see whole, then those at either end.

    count, full   number of tiles, at least one, and of those at the beginning that need no mask
    """

    def __init__(self, MASK, BLOCK_M, BLOCK_N, first_row, seqlen_q, seqlen_k, shift, window_left, window_right):
        last_row = minimum(first_row + BLOCK_M, seqlen_q) - 1
        nothing = fx.Int32(0)
        any_begin, all_begin, all_end, any_end = nothing, nothing, seqlen_k, seqlen_k
        if const_expr(MASK == "window"):
            any_begin = maximum(first_row + shift - window_left, nothing)
            all_begin = maximum(last_row + shift - window_left, nothing)
        if const_expr(MASK != "none"):
            all_end = maximum(minimum(first_row + shift + window_right + 1, seqlen_k), nothing)
            any_end = maximum(minimum(last_row + shift + window_right + 1, seqlen_k), nothing)
        self.MASK, self.BLOCK_N = MASK, BLOCK_N
        self.begin = any_begin // BLOCK_N
        end = maximum((any_end + (BLOCK_N - 1)) // BLOCK_N, self.begin + 1)
        self.full_begin = minimum((all_begin + (BLOCK_N - 1)) // BLOCK_N, end)
        full_end = minimum(maximum(all_end // BLOCK_N, self.full_begin), end)
        self.count, self.full = end - self.begin, full_end - self.full_begin

    def tile(self, j):
        """Which tile the j-th is; past the last one, one that is not there or that no row sees."""
        if const_expr(self.MASK != "window"):
            return j
        early = self.full_begin - self.begin  # tiles in front of the full ones
        behind = maximum(j - self.full, fx.Int32(0))
        at_edge = self.begin + behind + (behind < early).select(fx.Int32(0), self.full)
        return (j < self.full).select(self.full_begin + j, at_edge)

    def first_key(self, j):
        return self.tile(j) * self.BLOCK_N
