"""Single words of 64 bits: the processor instructions that Python has no name for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

WORD_BITS = 64

if TYPE_CHECKING:

    def trailing_zeros(word: np.uint64) -> int: ...

    def popcount(word: np.uint64) -> int: ...

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
