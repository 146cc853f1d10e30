"""A request to the processor: fetch a part of a matrix from memory, it is needed soon."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

BYTE, NUMBER = ir.IntType(8), ir.IntType(32)
WRITE, KEEP, DATA = 1, 3, 1  # it will be written to, it will be needed often, it is no code


def _prefetch(_: Any, matrix: Any, row: Any, column: Any) -> Any:
    """How the request is compiled."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        offset = ir.Constant(ir.IntType(64), 0)
        for axis in (0, 1):
            place = context.cast(builder, arguments[1 + axis], signature.args[1 + axis], types.int64)
            offset = builder.add(offset, builder.mul(place, builder.extract_value(array.strides, axis)))
        address = builder.gep(builder.bitcast(array.data, BYTE.as_pointer()), [offset], source_etype=BYTE)
        kind = ir.FunctionType(ir.VoidType(), [address.type, NUMBER, NUMBER, NUMBER])
        request = builder.module.declare_intrinsic("llvm.prefetch", (address.type,), kind)
        builder.call(request, [address, *(ir.Constant(NUMBER, value) for value in (WRITE, KEEP, DATA))])
        return context.get_dummy_value()

    return types.void(matrix, row, column), generate


prefetch: Any = intrinsic(_prefetch)
"""`prefetch(matrix, row, column)`, in compiled code: ask for the line of memory there; nothing waits for it."""
