"""Processor instructions that Python has no name for: two on words of 64 bits, and fetching memory ahead of its use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

WORD_BITS = 64

if TYPE_CHECKING:

    def trailing_zeros(word: np.uint64) -> int: ...

    def popcount(word: np.uint64) -> int: ...

    def prefetch(array: NDArray[Any], index: int) -> None: ...

else:

    @intrinsic
    def trailing_zeros(typing_context: Any, word: Any) -> Any:
        """Return the position of the lowest set bit of a word that is not zero."""

        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            # Zero may give anything, which lets the compiler use one instruction and no branch.
            return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

        return types.int64(types.uint64), emit

    @intrinsic
    def popcount(typing_context: Any, word: Any) -> Any:
        """Return the number of set bits of a word."""

        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.ctpop(arguments[0])

        return types.int64(types.uint64), emit

    @intrinsic
    def prefetch(typing_context: Any, array: Any, index: Any) -> Any:
        """Ask for the cache line of array[index] of a contiguous array. Any index is allowed: this never faults."""

        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
            address = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(8).as_pointer())
            number = ir.IntType(32)
            signature_of = ir.FunctionType(ir.VoidType(), [address.type, number, number, number])
            function = builder.module.declare_intrinsic("llvm.prefetch", [address.type], signature_of)
            read, keep, as_data = (ir.Constant(number, flag) for flag in (0, 3, 1))
            builder.call(function, [address, read, keep, as_data])
            return context.get_dummy_value()

        return types.void(array, types.intp), emit
