"""Ada-REIN: REIN that skips whole attributes, the rarest first.

Paper: Qian et al., "Adjusting Matching Algorithm to Adapt to Workload Fluctuations in Content-based Publish/Subscribe
Systems" (INFOCOM 2019), as EEM describes it in section 4.2. It pays where the attributes of subscriptions are skewed:
then many attributes hold few predicates each, and every one of them is a visit to each block of the index.

Differences from the paper: the budget adds up false matches and not predicates (`budget="paper"` for the count), and
skipping is by lists of the plan's own; see `skipping`.
"""

from __future__ import annotations

from eventsieve.elastic.population import Population
from eventsieve.elastic.precision import Budget
from eventsieve.elastic.selection import Layout, whole_attributes
from eventsieve.elastic.skips import Skips
from eventsieve.matchers.base import Capabilities
from eventsieve.matchers.skipping import SkippingRein


class AdaRein(SkippingRein):
    name = "ada-rein"
    summary = "REIN that can skip the rarest attributes within a bound on false matches"
    capabilities = Capabilities(
        paper="Ada-REIN (Qian et al., INFOCOM 2019), as EEM describes it", elastic=True, transforms=True
    )

    def _choose(self, population: Population, budget: Budget, layout: Layout) -> Skips:
        return Skips.for_good(whole_attributes(population, budget))
