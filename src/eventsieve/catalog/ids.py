"""Ids in columns: a pair of nullable columns, so that the integer 7 and the text "7" stay two different ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from eventsieve.model.ids import Id


@dataclass(frozen=True)
class IdColumns:
    """Row i has the id number[i], or text[i] where that is null. Both are Arrow chunked arrays."""

    number: pa.ChunkedArray
    text: pa.ChunkedArray

    @classmethod
    def of(cls, ids: Sequence[Id]) -> IdColumns:
        """Return checked ids as columns."""
        return cls(
            pa.chunked_array([[None if isinstance(id, str) else id for id in ids]], pa.int64()),
            pa.chunked_array([[id if isinstance(id, str) else None for id in ids]], pa.string()),
        )

    @classmethod
    def within(cls, table: pa.Table) -> IdColumns:
        """Return the id columns of a log or state table."""
        return cls(table.column("id_number"), table.column("id_text"))

    def __len__(self) -> int:
        return len(self.number)

    def take(self, rows: NDArray[np.int64]) -> IdColumns:
        """Return the ids of these rows."""
        if len(rows) == len(self) and (np.diff(rows) == 1).all():
            return self
        return IdColumns(self.number.take(pa.array(rows)), self.text.take(pa.array(rows)))

    def followed_by(self, other: IdColumns) -> IdColumns:
        """Return these ids and then the other ones."""
        return IdColumns(
            pa.chunked_array([*self.number.chunks, *other.number.chunks], pa.int64()),
            pa.chunked_array([*self.text.chunks, *other.text.chunks], pa.string()),
        )

    def among(self, other: IdColumns) -> pa.ChunkedArray:
        """Return a boolean per id: whether it is one of the other ones."""
        # A null would be found among the nulls of the other column, so each half looks only at real values.
        number = pc.is_in(self.number, value_set=other.number.drop_null())
        return pc.or_(number, pc.is_in(self.text, value_set=other.text.drop_null()))

    def to_list(self) -> list[Id]:
        """Return the ids with their types."""
        if self.text.null_count == len(self):
            return list(self.number.to_pylist())
        if self.number.null_count == len(self):
            return list(self.text.to_pylist())
        pairs = zip(self.number.to_pylist(), self.text.to_pylist(), strict=True)
        return [number if text is None else text for number, text in pairs]


def id_codes(ids: IdColumns) -> tuple[NDArray[np.int64], int]:
    """Return a dense code per row, equal for equal ids and -1 for none, and the number of codes."""
    number, n_numbers = _codes(ids.number)
    text, n_texts = _codes(ids.text)
    return np.where(text >= 0, text + n_numbers, number), n_numbers + n_texts


def _codes(column: pa.ChunkedArray) -> tuple[NDArray[Any], int]:
    if column.null_count == len(column):
        return np.full(len(column), -1, np.int64), 0
    encoded = column.dictionary_encode().combine_chunks()
    codes = pc.fill_null(encoded.indices.cast(pa.int64()), -1)
    return codes.to_numpy(zero_copy_only=False), len(encoded.dictionary)
