"""The records of a choice: what was wished for, what every candidate was expected to cost, and why one was taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias

from eventsieve.model.columns import EventColumns
from eventsieve.planner.memory import shown

Basis: TypeAlias = Literal["asked for", "rule", "unit costs", "timed"]

AROUND_MS: Final = 0.03
"""What an index does around its matcher for one event. Without it, matchers would differ more than a caller can see."""


@dataclass(frozen=True)
class Wish:
    """What the choice is to serve."""

    memory: int
    """Bytes that the index may take, clause table included."""
    batch: int | None = None
    """Events matched at a time; None where both single events and batches must be served well."""
    events: EventColumns | None = None
    """A sample of the events to come."""
    false_positive: float = 0.0
    """A share of false matches that may be reported under load: asks for an elastic matcher."""


@dataclass(frozen=True)
class Cost:
    """Milliseconds per event, and bytes of the matcher's own arrays."""

    single_ms: float
    batch_ms: float
    matcher_bytes: float


@dataclass(frozen=True)
class Candidate:
    """One matcher that could be taken."""

    matcher: str
    params: Mapping[str, Any] = field(default_factory=dict)
    single_ms: float | None = None
    """Predicted for one event at a time."""
    batch_ms: float | None = None
    """Predicted per event of a batch."""
    index_bytes: int | None = None
    """Predicted for matcher and clause table together."""
    basis: Basis = "unit costs"
    verdict: str = ""
    """Why it was taken, or why not."""

    @property
    def label(self) -> str:
        return ":".join([self.matcher, *(f"{name}={value}" for name, value in self.params.items())])


@dataclass(frozen=True)
class Plan:
    """A choice and its reasons. `candidates` come in the order of preference; the first is the one taken."""

    n_clauses: int
    memory: int | None
    batch: int | None
    based_on: str
    candidates: tuple[Candidate, ...]

    @property
    def chosen(self) -> Candidate:
        return self.candidates[0]

    @classmethod
    def asked_for(cls, matcher: str, params: Mapping[str, Any], n_clauses: int) -> Plan:
        """Return the plan of somebody who named the matcher."""
        taken = Candidate(matcher, params, basis="asked for", verdict="taken: it was asked for by name")
        return cls(n_clauses, None, None, "nothing: no choice was made", (taken,))

    def without(self, why: str) -> Plan:
        """Return the plan after its choice has turned out not to do: the next one that fits is taken."""
        refused = replace(self.chosen, verdict=why)
        rest = list(self.candidates[1:])
        next_one = next((each for each in rest if each.verdict.startswith("slower")), None)
        if next_one is None:
            return replace(self, candidates=(refused,))
        rest.remove(next_one)
        taken = replace(next_one, verdict=f"taken: the next best that fits, since {refused.label} did not")
        return replace(self, candidates=(taken, *rest, refused))

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {**asdict(self), "candidates": [asdict(each) for each in self.candidates]}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Plan:
        """Return the plan that `to_dict` took apart."""
        return cls(**{**plain, "candidates": tuple(Candidate(**each) for each in plain["candidates"])})

    def __str__(self) -> str:
        lines = [f"{self.chosen.label} for {self.n_clauses:,} clauses, based on {self.based_on}"]
        if self.memory is not None:
            served = {None: "single events and batches", 1: "single events"}.get(self.batch, f"batches of {self.batch}")
            lines.append(f"memory budget {shown(self.memory)}; to serve {served}")
        if len(self.candidates) > 1:
            lines += ["", *_table(self.candidates)]
        else:
            lines.append(self.chosen.verdict)
        return "\n".join(lines)


def _table(candidates: tuple[Candidate, ...]) -> list[str]:
    """Return the candidates as aligned lines."""
    heading = ("matcher", "ms/event", "in batch", "memory", "by", "")
    rows = [heading, *(_cells(each) for each in candidates)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(heading))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _cells(each: Candidate) -> tuple[str, ...]:
    times = ("-" if ms is None else f"{ms:.4f}" for ms in (each.single_ms, each.batch_ms))
    size = "-" if each.index_bytes is None else shown(each.index_bytes)
    return (each.label, *times, size, each.basis, each.verdict)
