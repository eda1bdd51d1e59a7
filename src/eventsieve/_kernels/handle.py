"""A bundle of arrays behind one reference.

Each time a kernel is called, the types of all arrays that it gets are looked at: 10 to 20 microseconds for an index of
forty arrays, in which one could match an event with some ten thousand clauses. Behind a handle they are looked at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from numba import types
from numba.experimental import structref

from eventsieve._kernels.compiler import kernel

Bundle = TypeVar("Bundle")

if TYPE_CHECKING:

    class Handle(Generic[Bundle]):
        """In a kernel, `handle.bundle` is what `held` was given."""

        bundle: Bundle

    def held(bundle: Bundle) -> Handle[Bundle]: ...

else:

    @structref.register
    class _HandleType(types.StructRef):
        """The type of handles, for the compiler."""

    class Handle(structref.StructRefProxy):
        """In a kernel, `handle.bundle` is what `held` was given."""

        def __class_getitem__(cls, bundle: object) -> type:
            return cls

    structref.define_boxing(_HandleType, Handle)
    structref.define_constructor(Handle, _HandleType, ["bundle"])
    structref.define_attributes(_HandleType)

    @kernel
    def held(bundle):
        """Return a handle. It holds on to the arrays, not to the tuple they came in."""
        return Handle(bundle)
