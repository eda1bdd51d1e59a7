"""WPA-REIN: REIN that skips predicates by their width, from the widest class down.

Paper: EEM, section 4.2, Algorithm 1. Predicates fall into L classes by width. In the widest class whole attributes are
skipped, the rarest first, then cells, the smallest first, then the same in the next class, until the budget is used. A
cell holds the predicates of one attribute and class whose low ends share a bucket; each is skipped in both lists.

Differences from the paper: the budget adds up false matches and not predicates (`budget="paper"` for the count). The
classes guide the choice and are no level of the index: with lists of 32,768 slots, five lists in place of one would
make exact matching pay five visits for one. Skipping is by lists of the plan's own; see `skipping`.
"""

from __future__ import annotations

from collections.abc import Sequence

from eventsieve.elastic.population import Population
from eventsieve.elastic.precision import Budget
from eventsieve.elastic.selection import Layout, class_of, width_classes
from eventsieve.elastic.skips import Skips
from eventsieve.matchers.base import Capabilities
from eventsieve.matchers.skipping import TABLE_3, SkippingRein
from eventsieve.model.transform import TransformChoice


class WpaRein(SkippingRein):
    name = "wpa-rein"
    summary = "REIN that can skip wide predicates within a bound on false matches"
    capabilities = Capabilities(
        paper="EEM (Dong et al., Computer Networks), Algorithm 1", elastic=True, transforms=True
    )

    def __init__(
        self,
        *,
        buckets: int = 1000,
        classes: int = 5,
        transform: TransformChoice = "linear",
        ladder: Sequence[float] = TABLE_3,
        exact: Sequence[int] = (),
        budget: str = "additive",
    ) -> None:
        super().__init__(buckets=buckets, transform=transform, ladder=ladder, exact=exact, budget=budget)
        if classes < 1:
            raise ValueError(f"classes must be at least 1, not {classes}")
        self.classes = self.shown_classes = int(classes)

    def _choose(self, population: Population, budget: Budget, layout: Layout) -> Skips:
        return Skips.for_good(width_classes(population, budget, layout, self.classes))

    def _paper_matchability(self, population: Population) -> float:
        widest = class_of(population.matchability, self.classes) == self.classes - 1
        return (
            float(population.matchability[widest].mean()) if widest.any() else super()._paper_matchability(population)
        )
