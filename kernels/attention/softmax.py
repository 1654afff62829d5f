"""Online softmax of a row that two lanes share, after arXiv:2205.14135; in pieces that fit between matrix products.

State of a row: row_max, unscaled, and the sums of p = exp2(scale * (score - row_max)).  Scores stay unscaled:
the factor is part of the one multiply-add in front of exp2.  Packed f32 instructions are not used, they would wait for
the matrix unit.
"""
import flydsl.expr as fx
from lanes import add_pair, any_lane, both_halves, exp2, pin, vector

# Of a masked score, and of the maximum of a row that has seen no key.  Two numbers, both finite: with one, of
# scale * score - scale * row_max a rounding error of about 1e22 would be left, and exp2 of it is 0 or infinite.
MASKED, NO_MAX = -1.0e30, -0.5e30
# A maximum may be outgrown by so many powers of two until the accumulator is rescaled: p stays within f16, after
# FlashAttention-4.
HEADROOM = 8.0
# Or no maximum is taken at all until the p of a tile add up to more than this in a lane.
LARGEST_SUM = 4096.0
VALU, TRANSCENDENTAL = 4, 8  # clocks


def no_sums(element):
    """Sums of p in a row: exact for lse, and in f16 also of the rounded p, to divide by.

    The largest p of a row is no exact 1, for its reference need not be the row's maximum.  Divided by what has the same
    error, a p that dominates its row loses it again; in bf16 the rounding of out hides that anyway.
    """
    return [fx.Float32(0.0) for _ in range(2 if element is fx.Float16 else 1)]


class Exponentials:
    """p = exp2(argument) of pairs of scores: packed for the next product, and summed.

    p     packed pairs, in order
    sums  of this tile so far, of the keys that the lane has, see no_sums()
    """

    def __init__(self, element, p=(), sums=None):
        self.element, self.p = element, list(p)
        self.sums = no_sums(element) if sums is None else list(sums)

    def work(self, arguments):
        """For weave().  `arguments` is read when the work is emitted.

        A pipeline: while one pair is exponentiated, the one before is packed and added up.
        """
        values = {}

        def exponential(i):
            values[i] = exp2(arguments[i])

        def pack(i):
            self.p.append(pin(vector([values[i], values[i + 1]]).to(self.element)))

        def add(i):
            self.sums[0] = pin(self.sums[0] + values.pop(i))

        def add_rounded():
            self.sums[1] = pin(add_pair(self.p[-1], self.sums[1]))

        work = []
        for i in range(0, len(arguments) + 2, 2):
            if i < len(arguments):
                work += [(TRANSCENDENTAL, lambda i=i: exponential(i)), (TRANSCENDENTAL, lambda i=i: exponential(i + 1))]
            if i >= 2:
                work += [(VALU, lambda i=i: pack(i - 2))]
                work += [(VALU, lambda i=i: add(i - 2)), (VALU, lambda i=i: add(i - 1))]
                work += [(VALU, add_rounded)] * (len(self.sums) - 1)
        return work


class Maximum:
    """What the exponents of a row are relative to: a score that is not much below the row's largest."""

    def __init__(self, row_max):
        self.row_max = row_max

    def raise_work(self, scores, scale, headroom):
        """For weave(): the largest score becomes the new reference if it is more than `headroom` powers of two above.

        `raised` says whether that is so for any lane of the wave: then all lanes change.
        """

        def take(i):
            both = fx.maxnumf(scores[i], scores[i + 1])
            self.largest = both if i == 0 else fx.maxnumf(self.largest, both)

        def cross():
            self.largest = fx.maxnumf(self.row_max, fx.maxnumf(*both_halves(self.largest)))

        def decide():
            self.raised = any_lane((self.largest - self.row_max) * scale > headroom)
            self.row_max = pin(self.raised.select(self.largest, self.row_max))

        takes = [(VALU, lambda i=i: take(i)) for i in range(0, len(scores), 2)]
        return [*takes, (3 * VALU, cross), (5 * VALU, decide)]

    def argument_work(self, arguments, scores, scale):
        """For weave(), behind raise_work() if there is one: arguments[i] = scale * (score - row_max)."""

        def begin():
            self.scaled = self.row_max * scale

        def argument(i):
            arguments[i] = pin(scores[i] * scale - self.scaled)

        return [(VALU, begin)] + [(VALU, lambda i=i: argument(i)) for i in range(len(scores))]


def run(work):
    """All of it at once, outside of weave()."""
    for _, emit in work:
        emit()
