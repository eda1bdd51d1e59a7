"""Trials: build matchers on samples of the very clauses, time them on events, and extrapolate to all clauses.

Two samples, one four times the other, give a fixed part and a part that grows with the number of clauses, of time and
of memory alike. Matchers take turns, several times over, and of each event the best time counts: processor time of this
thread. So whatever else the machine does falls on all of them, and on none of them for good. Single events of a large
index meet cold caches, and so they do here: these are swept before each.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import thread_time
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.compiler import cache_folder
from eventsieve.matchers.base import Matcher
from eventsieve.matchers.registry import make_matcher, matcher_class
from eventsieve.model.columns import ClauseTable, Domains, EventColumns, slice_events
from eventsieve.planner.plan import Cost

Setting: TypeAlias = tuple[str, Mapping[str, Any]]
"""A matcher and its parameters."""

SINGLE_EVENTS: Final = 16
BATCH: Final = 256
ROUNDS: Final = 3
_BEYOND_CACHES: Final = 50_000
"""Clauses from which on an index outgrows the caches."""
_SWEPT_BYTES: Final = 32 << 20
_PAGE: Final = 4096
"""Matchers take memory for up to so many clauses at a time."""
_STEP: Final = 4
"""The larger sample is so many times the smaller one."""
_MARGIN: Final = 1.05
"""Of predicted memory: a build that turns out too large is a build for nothing."""


class Bench:
    """Where trials take place: a sample of clauses, and events. Every matcher meets the same ones."""

    def __init__(
        self,
        clauses: ClauseTable,
        n_clauses: int,
        domains: Domains,
        events: EventColumns,
        false_positive: float = 0.0,
        timer: Callable[[], float] = thread_time,
    ) -> None:
        self._clauses, self._n_clauses, self._domains = clauses, n_clauses, domains
        self._batch, self._false_positive, self._timer = events, false_positive, timer
        n_events = events.start.shape[0] - 1
        alone = range(0, n_events, max(1, n_events // SINGLE_EVENTS))
        self._singles = [slice_events(events, e, e + 1) for e in alone]
        # All clauses will not fit the caches, but samples of them would.
        self._swept = np.zeros(_SWEPT_BYTES // 8) if n_clauses >= _BEYOND_CACHES else None
        self._starter = make_matcher("simple")
        self._starter.build(clauses._replace(start=clauses.start[:64], stop=clauses.stop[:64]), domains)

    @property
    def n_sampled(self) -> int:
        return int(self._clauses.start.shape[0])

    def costs(self, settings: Sequence[Setting]) -> list[Cost]:
        """Return what each matcher would cost with all clauses."""
        strides = (1,) if self.n_sampled >= self._n_clauses else (_STEP, 1)
        built = [self._built(name, params, stride) for name, params in settings for stride in strides]
        measured = [
            Cost(single, batch, sum(array.nbytes for array in matcher.arrays().values()))
            for matcher, (single, batch) in zip(built, self._times(built), strict=True)
        ]
        return [
            self._at_all(measured[first : first + len(strides)], matcher_class(name).capabilities.shares_batch)
            for first, (name, _) in zip(range(0, len(built), len(strides)), settings, strict=True)
        ]

    def _built(self, name: str, params: Mapping[str, Any], stride: int) -> Matcher:
        matcher = make_matcher(name, **params)
        start, stop = (np.ascontiguousarray(ends[::stride]) for ends in (self._clauses.start, self._clauses.stop))
        matcher.build(self._clauses._replace(start=start, stop=stop), self._domains)
        self._match(matcher, self._singles[0])  # loads or compiles its code
        return matcher

    def _times(self, matchers: list[Matcher]) -> NDArray[np.float64]:
        """Return milliseconds of each matcher, per single event and per event of a batch."""
        everything = [*self._singles, self._batch]
        best = np.full((len(matchers), len(everything)), np.inf)
        for _ in range(ROUNDS):
            for number, matcher in enumerate(matchers):
                for e, events in enumerate(everything):
                    if self._swept is not None and e < len(self._singles):
                        self._swept.sum()
                        self._starter.match_batch(events)  # or the matcher would pay for the interpreter
                    begin = self._timer()
                    self._match(matcher, events)
                    best[number, e] = min(best[number, e], (self._timer() - begin) * 1e3)
        n_together = self._batch.start.shape[0] - 1
        return np.stack([best[:, :-1].mean(axis=1), best[:, -1] / n_together], axis=1)

    def _match(self, matcher: Matcher, events: EventColumns) -> None:
        if self._false_positive:
            shares = np.full(events.start.shape[0] - 1, self._false_positive)
            matcher.match_elastic(events, shares)
        else:
            matcher.match_batch(events)[1].astype(np.int64)  # an index makes ids of the slots

    def _at_all(self, measured: list[Cost], shares_batch: bool) -> Cost:
        """Extend the line through two samples to all clauses; it never falls."""
        small, large = measured[0], measured[-1]
        if len(measured) == 1:
            return Cost(large.single_ms, large.batch_ms, large.matcher_bytes * _MARGIN)
        n_large = self.n_sampled
        apart = n_large - -(-n_large // _STEP)

        def growth(before: float, after: float, n_all: int) -> float:
            return max(0.0, after - before) * (n_all - n_large) / apart

        single = growth(small.single_ms, large.single_ms, self._n_clauses)
        batch = growth(small.batch_ms, large.batch_ms, self._n_clauses)
        size = large.matcher_bytes + growth(small.matcher_bytes, large.matcher_bytes, self._n_clauses + _PAGE)
        if size > _SWEPT_BYTES and not shares_batch:
            # Event by event through an index that no cache holds: each finds it as cold as a single one does.
            batch = max(batch, single)
        return Cost(large.single_ms + single, large.batch_ms + batch, size * _MARGIN)


def is_compiled(name: str) -> bool:
    """Say whether a matcher has been compiled on this machine before: for a first time, it takes many seconds."""
    source = Path(str(sys.modules[matcher_class(name).__module__].__file__))
    own_folder = source.parent.name == name.replace("-", "_")
    pattern = "*.nbi" if own_folder else f"{source.stem}.*.nbi"
    return any(Path(cache_folder(source.parent)).rglob(pattern))
