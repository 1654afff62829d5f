"""Values of a wave: one a lane, or the same in all 64. A function is an instruction or a few, named by what it does."""
import flydsl.expr as fx
from flydsl._mlir import ir
from flydsl._mlir.dialects import llvm
from flydsl.expr import rocdl
from flydsl.expr.typing import T

ELEMENTS = {"bf16": fx.BFloat16, "f16": fx.Float16}


def exp2(x):
    return fx.Float32(rocdl.exp2(T.f32, fx.Float32(x).ir_value()))


def log2(x):
    return fx.Float32(rocdl.log(T.f32, fx.Float32(x).ir_value()))


def reciprocal(x):
    return fx.Float32(rocdl.rcp(T.f32, fx.Float32(x).ir_value()))


def uniform(x):
    """An i32 that is the same in all lanes, in a scalar register."""
    return fx.Int32(rocdl.readfirstlane(T.i32, fx.Int32(x)))


def add_pair(pair, x):
    """x plus both elements of a vector of two, in f32: one instruction, a dot product with ones."""
    ones = fx.Vector.filled(2, 1.0, pair.dtype)
    dot = rocdl.fdot2 if pair.dtype is fx.Float16 else rocdl.fdot2_f32_bf16
    return fx.Float32(dot(T.f32, pair.ir_value(), ones.ir_value(), fx.Float32(x).ir_value()).result)


def any_lane(condition):
    """Is the condition true in any lane?  A wave-uniform bool."""
    return fx.Int64(rocdl.ballot(T.i64, condition.ir_value())) != 0


def both_halves(x):
    """The f32 of lane % 32 and that of lane % 32 + 32, in every lane."""
    word = fx.Float32(x).bitcast(fx.Int32).ir_value()
    pair = rocdl.permlane32_swap(ir.Type.parse("!llvm.struct<(i32, i32)>"), word, word, False, False)
    return tuple(fx.Int32(llvm.extractvalue(T.i32, pair, [half])).bitcast(fx.Float32) for half in (0, 1))


def pin(x):
    """The same value, computed no later than here.

    The compiler sinks arithmetic to its use, past barriers and out of the phase that was to hide it.
    """
    value = x.ir_value()
    result = llvm.inline_asm(value.type, [value], "", "=v,0", has_side_effects=True)
    return fx.Vector(result, x.shape, x.dtype) if isinstance(x, fx.Vector) else type(x)(result)


def zeros(count):
    """`count` f32 zeros in every lane."""
    return fx.Vector.filled(count, 0.0, fx.Float32)


def vector(values):
    """A vector of f32 out of scalars."""
    return fx.Vector.from_elements(list(values), fx.Float32)


def concat(parts):
    """Vectors of equal length end to end; their number is a power of two."""
    while len(parts) > 1:
        parts = [a.shuffle(b, list(range(a.numel + b.numel))) for a, b in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]
