"""From log rows to state, for all ids at once: the last row of each kind per id decides.

Whether an id is there and active is the business of its last add, remove, pause or resume. Its text is that of its last
add or replace. Its owner and labels come from the last add or the last replace that names them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from eventsieve.catalog.ids import IdColumns, id_codes
from eventsieve.catalog.log import ADD, OPERATIONS, PAUSE, REMOVE, REPLACE, RESUME

ABSENT, ACTIVE, PAUSED = range(3)

_OPERATION_NAMES: Final = pa.array(OPERATIONS)
_STATUS_AFTER: Final = {ADD: ACTIVE, RESUME: ACTIVE, PAUSE: PAUSED, REMOVE: ABSENT}
_STATUS_OF_OPERATION: Final = np.array([_STATUS_AFTER.get(each, ABSENT) for each in range(len(OPERATIONS))], np.int8)


@dataclass(frozen=True)
class Replay:
    """Log rows seen by id. Ids have dense codes; `status` is by code, the row numbers are too, -1 for none."""

    operation: NDArray[np.int8]  # by row
    code: NDArray[np.int64]  # by row; -1 for rows without an id
    status: NDArray[np.int8]
    added: NDArray[np.int64]
    content: NDArray[np.int64]

    @classmethod
    def of(cls, log: pa.Table) -> Replay:
        """Replay a log table."""
        code, n_codes = id_codes(IdColumns.within(log))
        return _replay(_operations(log), code, n_codes, len(log))

    def until(self, n_rows: int) -> Replay:
        """Return the replay of the first rows only, with the same codes."""
        return _replay(self.operation, self.code, len(self.status), n_rows)

    def last(self, chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the last of the chosen rows for every code."""
        return _last(self.code, len(self.status), chosen)


def _operations(log: pa.Table) -> NDArray[np.int8]:
    found: NDArray[Any] = pc.index_in(log.column("operation"), value_set=_OPERATION_NAMES).to_numpy()
    return found.astype(np.int8)


def _replay(operation: NDArray[np.int8], code: NDArray[np.int64], n_codes: int, n_rows: int) -> Replay:
    chosen = np.arange(len(operation)) < n_rows
    deciding = _last(code, n_codes, chosen & np.isin(operation, list(_STATUS_AFTER)))
    status = np.zeros(n_codes, np.int8)
    known = deciding >= 0
    status[known] = _STATUS_OF_OPERATION[operation[deciding[known]]]
    added = _last(code, n_codes, chosen & (operation == ADD))
    content = _last(code, n_codes, chosen & ((operation == ADD) | (operation == REPLACE)))
    return Replay(operation, code, status, added, content)


def _last(code: NDArray[np.int64], n_codes: int, chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
    rows = np.flatnonzero(chosen & (code >= 0))
    last = np.full(n_codes, -1, np.int64)
    last[code[rows]] = rows  # of several rows of one code the last assignment stays
    return last


def state_table(log: pa.Table) -> pa.Table:
    """Return one row per id that is there, in the order of their adding, from complete log rows."""
    replay = Replay.of(log)
    present = np.flatnonzero(replay.status != ABSENT)
    present = present[np.argsort(replay.added[present], kind="stable")]
    writes = (replay.operation == ADD) | (replay.operation == REPLACE)
    kept = {}
    for name in ("owner", "labels"):
        names_it = (replay.operation == ADD) | log.column(name).is_valid().to_numpy()
        kept[name] = replay.last(writes & names_it)[present]
    content, changed = replay.content[present], replay.last(replay.code >= 0)[present]
    owner = log.column("owner").take(kept["owner"])
    return pa.table(
        {
            "id_number": log.column("id_number").take(content),
            "id_text": log.column("id_text").take(content),
            "filter": log.column("filter").take(content),
            "owner": pc.if_else(pc.equal(owner, ""), None, owner),  # an empty owner takes the owner away
            "labels": log.column("labels").take(kept["labels"]),
            "paused": pa.array(replay.status[present] == PAUSED),
            "version": log.column("version").take(changed),
            "time": log.column("time").take(changed),
        }
    )


def statuses(log: pa.Table, asked: IdColumns) -> NDArray[np.int8]:
    """Return ABSENT, ACTIVE or PAUSED for every asked id."""
    rows = log.filter(IdColumns.within(log).among(asked))
    code, n_codes = id_codes(IdColumns.within(rows).followed_by(asked))
    replay = _replay(_operations(rows), code[: len(rows)], n_codes, len(rows))
    return replay.status[code[len(rows) :]]


@dataclass(frozen=True)
class NetChanges:
    """What differs between two versions in what is matched: rows of the log whose ids came, changed or went.

    A paused subscription is not matched, so pausing is a removal here and resuming an addition. `row` is the log row
    that has the text now in force, or for a removal any row of the id.
    """

    kind: NDArray[np.int8]  # ADDED, REPLACED, REMOVED
    row: NDArray[np.int64]


ADDED, REPLACED, REMOVED = range(3)
CHANGE_NAMES: Final = ("added", "replaced", "removed")


def net_changes(log: pa.Table, n_before: int) -> NetChanges:
    """Compare the state after the first rows of the log with the state after all of them."""
    after = Replay.of(log)
    before = after.until(n_before)
    was, is_now = before.status == ACTIVE, after.status == ACTIVE
    kind = np.full(len(was), -1, np.int8)
    kind[is_now & ~was] = ADDED
    kind[is_now & was & (after.content != before.content)] = REPLACED
    kind[was & ~is_now] = REMOVED
    codes = np.flatnonzero(kind >= 0)
    row = after.content[codes]
    in_log_order = np.argsort(row, kind="stable")
    return NetChanges(kind[codes][in_log_order], row[in_log_order])
