"""Matrix products on 32x32 tiles, with LDS reads and vector work placed between them."""
import flydsl.expr as fx
from flydsl.expr import rocdl

MFMA = {fx.BFloat16: rocdl.mfma_f32_32x32x16_bf16, fx.Float16: rocdl.mfma_f32_32x32x16_f16}


def mfma(a, b, c):
    """c + a @ b: a [32, 16], b [16, 32], 8 elements a lane; c [32, 32] f32, 16 a lane."""
    result = MFMA[a.dtype](c.ir_value().type, [a.ir_value(), b.ir_value(), c.ir_value()])
    return fx.Vector(result, (16,), fx.Float32)


def weave(accumulators, products, operands, reads=(), work=()):
    """Accumulate products in an instruction order that keeps the matrix unit busy; returns also the operands left over.

    products  (accumulator, b): accumulators[accumulator] += a @ b, a out of the operands in turn
    operands  the first few a, read already
    reads     read the next a from LDS, one with each product: first those of these products, then those of the next
    work      (clocks, emit) of vector work of the same phase, in order: spread over the gaps between products.  Behind
              the last product there is none: the next barrier is passed while that product still runs

    The order is fixed by scheduling barriers: left alone, the compiler puts each read right in front of its product.
    """
    accumulators, operands, reads = list(accumulators), list(operands), list(reads)
    gaps = [*_share(list(work), len(products) - 1), []]
    for (index, b), gap in zip(products, gaps, strict=True):
        accumulators[index] = mfma(operands.pop(0), b, accumulators[index])
        if reads:
            operands.append(reads.pop(0)())
        rocdl.sched_barrier(0)
        for emit in gap:
            emit()
        rocdl.sched_barrier(0)
    return accumulators, operands


def _share(work, count):
    """Cut work into `count` consecutive pieces of about the same clocks."""
    pieces, total, done = [[] for _ in range(count)], sum(clocks for clocks, _ in work), 0
    for clocks, emit in work:
        pieces[min(count - 1, int((done + clocks / 2) * count / total))].append(emit)
        done += clocks
    return pieces
