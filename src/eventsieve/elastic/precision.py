"""The matching precision model: how many predicates may be skipped for a share of false matches.

Paper: Dong et al., "EEM: An elastic event matching framework for content-based publish/subscribe systems", section
4.2.2. F is the share of the *reported* matches that are false.

Differences from the paper:

* Equations (4) to (6) as printed do not agree with each other. With F as above, Lemma 4 is F = 1 - w^(k - k'), and the
  number of predicates that may be skipped is Y = n log_w(1 - F). That form gives column Y2 of Table 3.
* Y counts predicates and does not look at whose they are, so it does not keep the promise: a skip on a subscription
  that matches often costs more. `Budget.additive` sums the false matches themselves, under the same model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb, log
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from eventsieve.errors import DataError

SPARE_SHARE: Final = 0.1
"""Part of the additive budget that is left unused: F holds on average over events, and batches differ."""

BUDGETS: Final = ("additive", "paper")


@dataclass(frozen=True)
class Budget:
    """How much a plan may spend. `kind` says what a skipped predicate costs."""

    kind: str
    limit: float

    @classmethod
    def additive(cls, false_positive: float, matches: float) -> Budget:
        """Allow false matches up to F / (1 - F) of the true ones, less the spare share."""
        return cls("additive", (1.0 - SPARE_SHARE) * allowance(false_positive) * matches)

    @classmethod
    def paper(cls, false_positive: float, n_subscriptions: int, matchability: float) -> Budget:
        """Allow Y predicates, whoever they belong to (Theorem 1, corrected)."""
        return cls("paper", skippable_predicates(n_subscriptions, matchability, false_positive))


def check_share(false_positive: Any) -> float:
    """Return F as a float; raise DataError if it is no share below 1."""
    try:
        share = float(false_positive)
    except (TypeError, ValueError):
        share = float("nan")
    if not 0.0 <= share < 1.0:
        raise DataError(
            f"false_positive is a share of the reported matches, from 0 (exact) to below 1, not {false_positive!r}"
        )
    return share


def shares_of_events(
    false_positive: float | Sequence[float] | NDArray[np.float64], n_events: int
) -> NDArray[np.float64]:
    """Return F for each event from one number for all of them, or one each."""
    if np.ndim(false_positive) == 0:
        return np.full(n_events, check_share(false_positive))
    shares = np.asarray(false_positive, np.float64)
    if shares.shape != (n_events,):
        raise DataError(f"false_positive is one share or one per event: {n_events} events, but shape {shares.shape}")
    for share in shares[~((shares >= 0.0) & (shares < 1.0))][:1]:
        check_share(float(share))
    return shares


def allowance(false_positive: float) -> float:
    """Return how many false matches may come with one true match.

    >>> round(allowance(0.05), 4)
    0.0526
    """
    return false_positive / (1.0 - false_positive)


def measured_share(reported: NDArray[np.int64], false: NDArray[np.int64]) -> tuple[float, float]:
    """Return the share of false matches over a sample of events, from their counts, and its standard error.

    >>> measured_share(np.array([10, 10, 10, 10]), np.array([0, 0, 2, 2]))
    (0.1, 0.0577...)
    """
    total = int(reported.sum())
    if total == 0:
        return 0.0, 0.0
    share = float(false.sum()) / total
    # Events differ, in matches and in false ones: the error is that of a ratio of two sums over them.
    strays = false - share * reported
    spread = float((strays**2).sum()) * reported.size / max(1, reported.size - 1)
    return share, spread**0.5 / total


def skippable_predicates(n_subscriptions: int, matchability: float, false_positive: float) -> float:
    """Return Y, the number of predicates that may be skipped (Theorem 1, corrected).

    >>> round(skippable_predicates(1_000_000, 0.787, 0.05))
    214144
    """
    if false_positive == 0.0 or matchability <= 0.0:
        return 0.0
    if matchability >= 1.0:
        return float("inf")
    return n_subscriptions * log(1.0 - false_positive) / log(matchability)


def chance_by_count(size: int, n_skipped: int, skipped_attributes: int, n_attributes: int) -> float:
    """Return the chance that of `size` predicates `n_skipped` are on the skipped attributes (Lemma 1)."""
    rest = size - n_skipped
    return (
        comb(n_attributes - skipped_attributes, rest) * comb(skipped_attributes, n_skipped) / comb(n_attributes, size)
    )


def chance_by_frequency(size: int, n_skipped: int, share: float) -> float:
    """Return the same chance where the skipped attributes hold this share of all predicates (Lemma 2)."""
    return float(comb(size, n_skipped) * share**n_skipped * (1.0 - share) ** (size - n_skipped))


def expected_size(clauses_of_size: NDArray[np.int64], share: float) -> float:
    """Return the mean size that is left when attributes with this share of all predicates are skipped (Lemma 3)."""
    total = 0.0
    for size, count in enumerate(clauses_of_size.tolist()):
        left = sum(chance_by_frequency(size, j, share) * (size - j) for j in range(size + 1))
        total += count * left
    return total / max(1, int(clauses_of_size.sum()))


def expected_share(matchability: float, size: float, size_left: float) -> float:
    """Return the share of false matches when the mean size shrinks (Lemma 4, corrected)."""
    return float(1.0 - matchability ** (size - size_left))
