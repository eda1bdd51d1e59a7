"""The contract every matcher keeps, and the record of what a matcher can do.

A matcher indexes clauses (conjunctions of closed intervals) by slot and answers, for a batch of events, the
slots of the clauses that each event satisfies. It knows nothing of ids, texts, OR or residual checks: the
index above it does. Public methods validate and are final; an implementer fills the underscored ones.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from eventsieve.errors import MatcherError
from eventsieve.matchers.scratch import borrowed
from eventsieve.matchers.threads import side_by_side
from eventsieve.model.columns import ClauseTable, Domains, EventColumns, slice_events
from eventsieve.model.large_arrays import end_to_end, large_array, large_copy

if TYPE_CHECKING:
    from eventsieve.elastic.plan import SkipPlan

MatchEvents: TypeAlias = Callable[[EventColumns, int, NDArray[np.int64], NDArray[np.int32]], int]
"""What `Matcher._match_events` is."""

_FIRST_ROOM = 1 << 16
"""Places for results that a batch starts with, beyond one event's worst case. Untouched pages cost nothing."""


@dataclass(frozen=True)
class Capabilities:
    """What a matcher can do, declared so that nobody has to probe."""

    paper: str
    """Where it comes from."""
    exact: bool = True
    """By default it reports exactly the matches of a brute-force scan."""
    approximate: str | None = None
    """How it can be told to report false positives (never to lose a match), and the bound; None if it cannot."""
    elastic: bool = False
    """Takes a bound on false positives per batch or event, with no rebuild."""
    transforms: bool = False
    """Cuts value ranges into cells, so a value transform pays on skewed values."""
    shares_batch: bool = False
    """Does less work per event in a batch than event by event."""


class ElasticMatches(NamedTuple):
    """The result of matching within a bound on false positives."""

    event_start: NDArray[np.int64]  # (n_events + 1,)
    slots: NDArray[np.int32]  # (n_matches,)
    approximate: NDArray[np.bool_]  # (n_matches,), not every predicate of the clause was asked


class Matcher(ABC):
    """Base of all matchers. Parameters are keyword arguments of `__init__` and never change afterwards."""

    name: ClassVar[str]
    summary: ClassVar[str]
    """One line for tables and help."""
    capabilities: ClassVar[Capabilities]

    clauses: ClauseTable
    """All clauses by slot. The index owns and grows the table; a matcher reads it, never writes it."""
    domains: Domains

    @property
    def n_slots(self) -> int:
        """Slots in the table, free ones included: every slot that is reported is below this."""
        return self.clauses.start.shape[0]

    @property
    def n_attributes(self) -> int:
        return self.domains.low.shape[0]

    @property
    def params(self) -> dict[str, Any]:
        """The parameters in force, by name, as plain values."""
        return {name: getattr(self, name) for name in self.parameter_names()}

    @final
    @classmethod
    def parameter_names(cls) -> tuple[str, ...]:
        """Return the names of the parameters, from the signature of `__init__`."""
        parameters = inspect.signature(cls).parameters.values()
        return tuple(p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY)

    @property
    def approximate(self) -> bool:
        """With these parameters it may report false positives, within the bound its capabilities state."""
        return False

    # -- the public face: final --------------------------------------------------------------------------

    @final
    def build(self, clauses: ClauseTable, domains: Domains) -> None:
        """Index every clause of the table that has a predicate, from scratch."""
        self.clauses = clauses
        self.domains = domains
        self._build()

    @final
    def insert(self, slots: NDArray[np.int32], clauses: ClauseTable) -> None:
        """Index the clauses at `slots` of the grown table, in place."""
        self.clauses = clauses
        if slots.size:
            self._insert(slots)

    @final
    def delete(self, slots: NDArray[np.int32]) -> None:
        """Forget the clauses at `slots`, in place. The table still holds them when this is called."""
        if slots.size:
            self._delete(slots)

    @final
    def rebind(self, clauses: ClauseTable) -> None:
        """Point at a table whose clauses are the same but whose predicates have moved."""
        self.clauses = clauses
        self._rebind()

    @final
    def match_batch(self, events: EventColumns, threads: int = 1) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return (event_start, slots): event e satisfies the clauses slots[event_start[e]:event_start[e+1]].

        The slots of an event come in any order, each once.
        """
        n_events = events.start.shape[0] - 1
        threads = max(1, min(threads, n_events))
        return self._match_part(events) if threads == 1 else self._match_in_threads(events, threads)

    @final
    def match_elastic(
        self, events: EventColumns, false_positive: NDArray[np.float64], threads: int = 1, verify: bool = False
    ) -> ElasticMatches:
        """Match each event within its share of false positives; `verify` checks the approximate matches again."""
        self._check_elastic()
        return self._match_elastic(events, false_positive, threads, verify)

    @final
    def skip_plan(self, false_positive: float) -> SkipPlan:
        """Prepare matching with this share of false positives, and say what it leaves out."""
        self._check_elastic()
        return self._skip_plan(false_positive)

    @final
    def ready_share(self, false_positive: float) -> float:
        """Return the largest share up to this one that is ready to match with, 0 (exact) where none is."""
        self._check_elastic()
        return self._ready_share(false_positive)

    @final
    def learn(self, events: EventColumns) -> None:
        """Take a sample of events to measure by how often predicates hold."""
        self._check_elastic()
        self._learn(events)

    @final
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return every array the matcher keeps, by name: what a snapshot stores and what memory is counted by."""
        return dict(self._arrays())

    @final
    def restore(self, arrays: Mapping[str, NDArray[Any]], clauses: ClauseTable, domains: Domains) -> None:
        """Take up the state that `arrays` gave, instead of building."""
        self.clauses = clauses
        self.domains = domains
        self._restore(arrays)

    @final
    def describe(self) -> dict[str, Any]:
        """Return the matcher's own facts for people: sizes, depth, occupancy."""
        return {"matcher": self.name, "params": self.params, **self._describe()}

    def adjust(self) -> bool:
        """Rearrange the index by what has been learned since it was built; say whether anything has changed.

        A matcher with nothing to learn leaves this as it is. Answers are the same before and after.
        """
        raise MatcherError(f"matcher {self.name!r} has nothing to adjust; build the index anew to rearrange it")

    # -- what an implementer fills -----------------------------------------------------------------------

    @abstractmethod
    def _build(self) -> None:
        """Make the index of `self.clauses`, leaving out slots with start == stop."""

    @abstractmethod
    def _insert(self, slots: NDArray[np.int32]) -> None:
        """Add the clauses at `slots`; `self.clauses` already holds them, and `self.n_slots` may have grown."""

    @abstractmethod
    def _delete(self, slots: NDArray[np.int32]) -> None:
        """Take out the clauses at `slots`, without a scan over all clauses."""

    @abstractmethod
    def _match_events(
        self, events: EventColumns, first: int, out_count: NDArray[np.int64], out_slots: NDArray[np.int32]
    ) -> int:
        """Match events from `first` on, until all are done or fewer than `n_slots` places of `out_slots` are left.

        Write the number of matches of event e to out_count[e] and the slots one event after the other to
        out_slots, from its beginning. Return the first event that was not matched. Scratch belongs to the
        call: several threads may be in here at once.
        """

    @abstractmethod
    def _arrays(self) -> Mapping[str, NDArray[Any]]:
        """Return the arrays that `_restore` needs. `self.clauses` is stored elsewhere and left out."""

    @abstractmethod
    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take up the arrays that `_arrays` gave. They are writable, and private to this process."""

    def _rebind(self) -> None:  # noqa: B027  (most matchers keep no positions into the predicate arrays)
        """React to predicates having moved in the table; needed only by a matcher that kept their positions."""

    def _match_elastic(
        self, events: EventColumns, false_positive: NDArray[np.float64], threads: int, verify: bool
    ) -> ElasticMatches:
        """Match elastically. Only asked for where the capabilities say so, as the three below."""
        raise NotImplementedError

    def _skip_plan(self, false_positive: float) -> SkipPlan:
        raise NotImplementedError

    def _ready_share(self, false_positive: float) -> float:
        raise NotImplementedError

    def _learn(self, events: EventColumns) -> None:
        raise NotImplementedError

    def _expected_matches(self, events: EventColumns) -> int:
        """Guess the matches of a batch, for a matcher that does better with room for all; a wrong guess costs time."""
        return 0

    def _describe(self) -> dict[str, Any]:
        return {}

    # -- plumbing ----------------------------------------------------------------------------------------

    def _check_elastic(self) -> None:
        if not self.capabilities.elastic:
            from eventsieve.matchers.registry import elastic_matchers

            raise MatcherError(
                f"matcher {self.name!r} is exact and takes no false_positive; the elastic matchers are "
                + ", ".join(elastic_matchers())
            )

    def _match_in_threads(self, events: EventColumns, threads: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Match all events in several threads, each of which takes some of them."""
        n_events = events.start.shape[0] - 1
        cuts = [n_events * part // threads for part in range(threads + 1)]
        return join_results(side_by_side(self._match_part, [slice_events(events, a, b) for a, b in pairwise(cuts)]))

    def _match_part(self, events: EventColumns) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Match all events in this thread."""
        if events.start.shape[0] == 2:
            return self._match_one(events)
        return self._match_rounds(self._match_events, events)

    def _match_rounds(
        self, match_events: MatchEvents, events: EventColumns
    ) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Match all events, in as many rounds as the room for results asks for."""
        n_events = events.start.shape[0] - 1
        counts = np.zeros(n_events, np.int64)
        pieces: list[NDArray[np.int32]] = []
        done = 0
        room = self.n_slots + (max(_FIRST_ROOM, self._expected_matches(events)) if n_events else 0)
        while done < n_events:
            out_slots = large_array(max(room, 1), np.int32)
            reached = self._progress(match_events, events, done, counts, out_slots)
            used = int(counts[done:reached].sum())
            # A small result must not keep a large block alive.
            pieces.append(out_slots[:used] if used * 2 > out_slots.size else large_copy(out_slots[:used]))
            # Twice what the rest should need at the rate seen so far.
            room = self.n_slots + min(2 * used * (n_events - reached) // (reached - done), 1 << 26)
            done = reached
        event_start = np.zeros(n_events + 1, np.int64)
        np.cumsum(counts, out=event_start[1:])
        return event_start, end_to_end(pieces)

    def _match_one(self, events: EventColumns) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Match one event. The room for all that it could match is lent: it takes longer to make than to use."""
        event_start = np.zeros(2, np.int64)
        with borrowed("matches", max(self.n_slots, 1), np.int32) as out_slots:
            self._progress(self._match_events, events, 0, event_start[1:], out_slots)
            return event_start, out_slots[: event_start[1]].copy()

    def _progress(
        self,
        match_events: MatchEvents,
        events: EventColumns,
        done: int,
        out_count: NDArray[np.int64],
        out_slots: NDArray[np.int32],
    ) -> int:
        """Match events from `done` on; return the first that was not matched, which must be a later one."""
        reached = match_events(events, done, out_count, out_slots)
        if reached <= done:
            raise MatcherError(
                f"matcher {self.name!r} made no progress at event {done}; this is a bug, please report it"
            )
        return reached


def join_results(
    parts: list[tuple[NDArray[np.int64], NDArray[np.int32]]],
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Lay the results of consecutive parts of a batch end to end."""
    starts = [np.zeros(1, np.int64)]
    total = 0
    for event_start, slots in parts:
        starts.append(event_start[1:] + total)
        total += slots.size
    return np.concatenate(starts), end_to_end([slots for _, slots in parts])
