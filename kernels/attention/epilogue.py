"""What a wave stores of its 32 rows."""
import flydsl.expr as fx
import tiles
from flydsl.expr import range_constexpr
from lanes import both_halves, log2, reciprocal, vector

LN_2 = 0.6931471805599453


def store_rows(out, lse, row, lane, accumulators, row_max, sums, scale_log2):
    """out = accumulated / the last of the sums; lse, natural.  A row that sees no key: 0 and -inf.

    accumulators  transposed: a lane has its row, and of every 32 columns those of its half
    """
    totals = [low + high for low, high in map(both_halves, sums)]
    unseen = totals[0] == 0.0
    inverse = unseen.select(fx.Float32(0.0), reciprocal(totals[-1]))
    for chunk in range_constexpr(len(accumulators)):
        for group in range_constexpr(4):
            values = [accumulators[chunk][4 * group + i] * inverse for i in range_constexpr(4)]
            column = 32 * chunk + tiles.accumulator_row(lane, 4 * group)
            out.store(row, column, vector(values).to(out.element))
    natural = (row_max * scale_log2 + log2(totals[0])) * LN_2
    lse.store(row, 0, vector([unseen.select(fx.Float32(float("-inf")), natural)]))  # the same from both halves
