"""PAD, the performance adjustment decision: F follows the latency, and goes back to 0 by itself.

Paper: EEM section 4.3, Algorithm 2.

Differences from the paper: the comparison that lowers F is "at or under", and a window without events lowers it too.
With the strict comparison of the print, F can stay above 0 for ever once latency has settled at a constant.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from eventsieve.elastic.precision import check_share


@dataclass
class PadController:
    """Sets F window by window. Latencies are in seconds; the defaults are the paper's, for an embedded broker.

    >>> pad = PadController(maximum=0.001, step=0.0004)
    >>> [pad.observe(latency) for latency in (0.010, 0.030, 0.045, 0.050, 0.017, 0.012, None)]
    [0.0, 0.0004, 0.0008, 0.001, 0.001, 0.0006, 0.0002]
    """

    maximum: float = 0.001
    step: float = 0.0002
    upper: float = 0.020
    lower: float = 0.015
    false_positive: float = field(default=0.0, init=False)
    """F in force."""
    latency: float = field(default=0.0, init=False)
    """The mean latency of the last window."""

    def __post_init__(self) -> None:
        check_share(self.maximum)
        if not self.step > 0.0:
            raise ValueError(f"step must be above 0, not {self.step}")
        if not 0.0 <= self.lower <= self.upper:
            raise ValueError(f"thresholds must be 0 <= lower <= upper, not lower {self.lower} and upper {self.upper}")

    def observe(self, latency: float | None) -> float:
        """Take the mean latency of a window, None for a window without events; return F for the next one."""
        now = 0.0 if latency is None else latency
        if latency is not None and now >= max(self.upper, self.latency):
            self.false_positive = min(self.false_positive + self.step, self.maximum)
        elif now <= min(self.lower, self.latency) or latency is None:
            self.false_positive = max(self.false_positive - self.step, 0.0)
        # Steps are decimal numbers: what adding and taking away leaves over must not keep F above 0.
        self.false_positive = round(self.false_positive, 12)
        self.latency = now
        return self.false_positive
