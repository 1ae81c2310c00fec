"""Eight data points side by side: a Numba type that is one SIMD vector, so that kernels read like scalar code.

Loops over lanes vectorise only where the compiler can prove that arrays do not overlap, and it cannot for two parts
of one array. A value of this type lives in a register; `load` and `store` move it from and to an array (..., LANES),
whose rows are counted as if it were flat.
"""

import operator

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import lower_builtin, models, register_model, type_callable

from multicause.backends.numba_cpu.without_compiler import intrinsic

LANES = 8
_VECTOR = ir.VectorType(ir.DoubleType(), LANES)
_OPERATORS = {operator.add: "fadd", operator.sub: "fsub", operator.mul: "fmul", operator.truediv: "fdiv"}


class Lanes(types.Type):
    """Numba's view of eight doubles."""

    def __init__(self):
        super().__init__(name=f"Lanes({LANES})")


lanes = Lanes()


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager, fe_type):
        super().__init__(manager, fe_type, _VECTOR)


def _pointer(context, builder, array_type, array, row):
    data = context.make_array(array_type)(context, builder, array).data
    first = builder.gep(data, [builder.mul(row, ir.Constant(row.type, LANES))])
    return builder.bitcast(first, _VECTOR.as_pointer())


def _rows(array):
    """As without the compiler: all rows of an array (..., LANES)."""
    return array.reshape(-1, LANES)


@intrinsic(lambda array, row: _rows(array)[row].copy())
def load(typingctx, array, row):
    """The eight numbers of a row of a contiguous float64 array."""

    def codegen(context, builder, signature, args):
        return builder.load(_pointer(context, builder, signature.args[0], *args), align=8)

    return lanes(array, types.intp), codegen


@intrinsic(lambda array, row, value: np.copyto(_rows(array)[row], value))
def store(typingctx, array, row, value):
    """Write eight numbers to a row of a contiguous float64 array."""

    def codegen(context, builder, signature, args):
        builder.store(args[2], _pointer(context, builder, signature.args[0], *args[:2]), align=8)
        return context.get_dummy_value()

    return types.void(array, types.intp, lanes), codegen


def _fill(builder, value):
    """The same number in all lanes."""
    empty = ir.Constant(_VECTOR, ir.Undefined)
    first = builder.insert_element(empty, value, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, empty, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))


@intrinsic(lambda value: np.full(LANES, value))
def fill(typingctx, value):
    """The same number in all lanes."""

    def codegen(context, builder, signature, args):
        return _fill(builder, args[0])

    return lanes(types.float64), codegen


@intrinsic(lambda a, b, one, other: np.where(a > b, one, other))
def where_larger(typingctx, a, b, one, other):
    """In each lane `one` where a > b, else `other`."""

    def codegen(context, builder, signature, args):
        return builder.select(builder.fcmp_ordered(">", args[0], args[1]), args[2], args[3])

    return lanes(lanes, lanes, lanes, lanes), codegen


def _in_pairs(values):
    """As without the compiler: the same sum, in the same order."""
    while len(values) > 1:
        values = values[: len(values) // 2] + values[len(values) // 2 :]
    return values[0]


@intrinsic(_in_pairs)
def sum_lanes(typingctx, value):
    """The sum of the eight numbers, in pairs."""

    def codegen(context, builder, signature, args):
        parts = [builder.extract_element(args[0], ir.Constant(ir.IntType(32), lane)) for lane in range(LANES)]
        while len(parts) > 1:
            half = len(parts) // 2
            parts = [builder.fadd(a, b) for a, b in zip(parts[:half], parts[half:], strict=True)]
        return parts[0]

    return types.float64(lanes), codegen


def _define(python_operator, instruction):
    """a op b for two vectors, or a vector and a number; products may fuse with sums."""

    @type_callable(python_operator)
    def typing(context):
        def typer(a, b):
            if lanes in (a, b) and all(x == lanes or x == types.float64 for x in (a, b)):
                return lanes
            return None

        return typer

    def lower(context, builder, signature, args):
        a, b = (arg if kind == lanes else _fill(builder, arg) for kind, arg in zip(signature.args, args, strict=True))
        return getattr(builder, instruction)(a, b, flags=("contract",))

    for kinds in ((Lanes, Lanes), (Lanes, types.Float), (types.Float, Lanes)):
        lower_builtin(python_operator, *kinds)(lower)


for _operator, _instruction in _OPERATORS.items():
    _define(_operator, _instruction)
