"""The skip plan: what is left out for one F, whom it touches, and what it is expected to gain. Made to be read."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_ARRAYS: Final = ("touched", "may_see")


@dataclass(frozen=True)
class SkipPlan:
    """What matching with `false_positive` leaves out. A plan that skips nothing is exact matching."""

    asked: float
    """F as asked for."""
    false_positive: float
    """F in force: the ladder's rung at or below it. The share of the reported matches that may be false, on average."""
    budget: str
    """"additive" keeps the promise, "paper" is the paper's count."""
    n_clauses: int
    n_predicates: int
    skipped: int
    """Predicates left out."""
    paper_skippable: float
    """Y, the number the paper's formula allows."""
    allowed: float
    """False matches per event that F allows."""
    expected_false: float
    """False matches per event that the model expects."""
    expected_matches: float
    """True matches per event that the model expects."""
    skipped_of_attribute: dict[str, tuple[int, int]]
    """Per touched attribute, predicates left out, and all."""
    skipped_of_class: tuple[int, ...]
    """Predicates left out by width class, narrowest first."""
    lists: tuple[int, int]
    """Bucket lists (of a block of subscriptions and an attribute) that need no visit, and all."""
    gain: float
    """R: the share of the matching time that the cost model expects to save."""
    touched: NDArray[Any]
    """Who can see false matches: subscription ids (clause slots if a matcher is asked). All others stay exact."""
    may_see: NDArray[np.float64]
    """For each of them, the share of its own reported matches that is expected to be false."""
    checked: int = 0
    """Clauses whose matches are checked again: what was left out of the index is asked there, and they stay exact."""
    rows: float = 0.0
    """Rows of bits that an event reads in place of lists."""
    measured_share: float | None = None
    """The share of false matches seen on the event sample, where there is one."""
    measured_error: float | None = None
    """Its standard error: the sample is small, and events differ."""

    @property
    def expected_share(self) -> float:
        """The share of false matches that the model expects."""
        reported = self.expected_false + self.expected_matches
        return self.expected_false / reported if reported > 0 else 0.0

    @property
    def whole_attributes(self) -> tuple[str, ...]:
        """The attributes that nobody is asked about any more."""
        return tuple(name for name, (left_out, of) in self.skipped_of_attribute.items() if left_out == of)

    def named(self, names: tuple[str, ...], touched: NDArray[Any], may_see: NDArray[np.float64]) -> SkipPlan:
        """Return the plan with attributes by name and subscriptions by id."""
        by_name = {names[int(number)]: counts for number, counts in self.skipped_of_attribute.items()}
        return replace(self, skipped_of_attribute=by_name, touched=touched, may_see=may_see)

    def to_json(self) -> dict[str, Any]:
        """Return everything but the two arrays, as plain values."""
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name not in _ARRAYS}

    @classmethod
    def from_json(cls, facts: dict[str, Any], touched: NDArray[Any], may_see: NDArray[np.float64]) -> SkipPlan:
        """Put a plan together again."""
        tuples = {name: tuple(facts[name]) for name in ("skipped_of_class", "lists")}
        counts = {name: tuple(pair) for name, pair in facts["skipped_of_attribute"].items()}
        return cls(**{**facts, **tuples, "skipped_of_attribute": counts, "touched": touched, "may_see": may_see})

    def __str__(self) -> str:
        if not self.skipped:
            return f"F = {self.asked:.4%}: nothing is skipped, matching is exact"
        worst = float(self.may_see.max(initial=0.0))
        classes = ", ".join(f"{count:,}" for count in self.skipped_of_class)
        error = self.measured_error or 0.0
        lines = [
            f"F = {self.false_positive:.4%} (asked for {self.asked:.4%}), budget {self.budget}",
            f"skips      {self.skipped:,} of {self.n_predicates:,} predicates (paper's Y: {self.paper_skippable:,.0f})",
            f"lists      {self.lists[0]:,} of {self.lists[1]:,} need no visit",
            self.rows and f"rows       {self.rows:,.0f} are read in place of lists",
            f"attributes {len(self.skipped_of_attribute)} touched, {len(self.whole_attributes)} wholly skipped",
            f"classes    {classes} predicates, narrowest first",
            f"budget     {self.expected_false:,.3g} of {self.allowed:,.3g} false matches per event",
            f"expected   {self.expected_share:.4%} of the reports false, {self.expected_matches:,.4g} true matches",
            self.measured_share is not None
            and f"measured   {self.measured_share:.4%} +- {error:.4%} on the event sample",
            f"touched    {self.touched.size:,} of {self.n_clauses:,}, up to {worst:.1%} of what they see; others exact",
            self.checked and f"checked    {self.checked:,} more have their matches checked again, and stay exact",
            f"gain       {self.gain:.1%} of the matching time expected",
        ]
        return "\n".join(line for line in lines if line)
