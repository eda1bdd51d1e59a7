"""How far an elastic run may go, and when: the text that operators write, and the record that controllers take.

    max=0.1%,step=0.02%,upper=20ms,lower=15ms,window=100events
    on       the same with every default
    off      exact matching

Thresholds and window have no default here: a broker thinks in milliseconds, a stream in its trigger intervals. What is
left out stays None until `filled`.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import Final

from eventsieve.elastic.controller import PadController
from eventsieve.errors import DataError, suggestion

MAXIMUM: Final = 0.001
STEP: Final = 0.0002
"""The paper's F_max and step."""

MOST_RUNGS: Final = 10
"""Values of F that plans are kept for at most: each plan takes about the memory of REIN's lists."""

_EXAMPLE: Final = "write for example max=0.1%,step=0.02%,upper=2s,lower=1s,window=100events; or on, or off"
_NAMES: Final = ("max", "step", "upper", "lower", "window")
_SECONDS_OF: Final = {"ms": Decimal("0.001"), "s": Decimal(1), "min": Decimal(60)}


@dataclass(frozen=True)
class ElasticSettings:
    """What `--elastic` says. Shares are of the reported matches, times are in seconds.

    >>> settings = ElasticSettings.parse("max=0.1%, upper=20ms, lower=15ms")
    >>> settings.maximum, settings.upper, settings.window_events
    (0.001, 0.02, None)
    >>> str(settings)
    'max=0.1%,step=0.02%,upper=20ms,lower=15ms'
    """

    maximum: float = MAXIMUM
    """The largest F. 0 is `off`: exact matching."""
    step: float = STEP
    """What one decision adds to F, or takes off it."""
    upper: float | None = None
    """F rises while events wait this long, and no less than before."""
    lower: float | None = None
    """F falls while events wait no longer than this, and no longer than before."""
    window_events: int | None = None
    """Events between two decisions."""
    window_seconds: float | None = None
    """Or the time between them."""

    def __post_init__(self) -> None:
        _check_share("max", self.maximum)
        _check_share("step", self.step)
        if self.step == 0.0:
            raise DataError("step is what one decision adds to F; 0 would keep F at 0 for ever: write off for that")
        for name, value in (("upper", self.upper), ("lower", self.lower), ("window", self.window_seconds)):
            if value is not None and not 0.0 <= value < float("inf"):
                raise DataError(f"{name} is a time from 0 on, such as 20ms or 2s, not {value!r}")
        if self.upper is not None and self.lower is not None and self.lower > self.upper:
            raise DataError(
                f"lower={_duration(self.lower)} is above upper={_duration(self.upper)}; F could rise and fall at once: "
                "give a lower at or under upper"
            )
        if self.window_events is not None and self.window_seconds is not None:
            raise DataError("window is a number of events or a time, not both; leave one of them out")
        if self.window_events is not None and self.window_events < 1:
            raise DataError(f"window is at least 1 event, not {self.window_events}; 1events decides after each one")

    @classmethod
    def parse(cls, text: str) -> ElasticSettings:
        """Read `max=..,step=..,upper=..,lower=..,window=..` in any order and number, `on` or `off`."""
        word = text.strip().lower()
        if word in ("on", "off"):
            return cls() if word == "on" else OFF
        values: dict[str, float | int] = {}
        given: set[str] = set()
        for part in text.split(","):
            name, equals, value = (each.strip() for each in part.partition("="))
            if not equals or not name or not value:
                raise DataError(f"{part.strip()!r} in elastic settings {text!r} is no name=value; {_EXAMPLE}")
            if name in given:
                raise DataError(f"{name} is given twice in elastic settings {text!r}; leave one of them out")
            given.add(name)
            field, number = _read(name, value)
            values[field] = number
        return cls(**values)  # type: ignore[arg-type]  # events are whole numbers, the rest is not

    @property
    def enabled(self) -> bool:
        """F may leave 0."""
        return self.maximum > 0.0

    @property
    def ladder(self) -> tuple[float, ...]:
        """The values of F to prepare plans for: the controller's steps, thinned where there are very many."""
        if not self.enabled:
            return ()
        n_steps = max(1, int(self.maximum / self.step + 1e-9))
        stride = -(-n_steps // MOST_RUNGS)
        # Rounded as the controller rounds, so that each of its steps finds its own rung.
        rungs = {round(number * self.step, 12) for number in range(stride, n_steps + 1, stride)}
        return tuple(sorted(rung for rung in rungs | {self.maximum} if rung <= self.maximum))

    def rung(self, false_positive: float) -> float:
        """Return the F in force when this one is asked for: the rung at or below it, 0 where there is none."""
        below = bisect_right(self.ladder, false_positive)
        return self.ladder[below - 1] if below else 0.0

    def filled(
        self, *, upper: float, lower: float, window_events: int | None = None, window_seconds: float | None = None
    ) -> ElasticSettings:
        """Return the settings with defaults for what was left out."""
        if self.window_events is not None or self.window_seconds is not None:
            window_events, window_seconds = self.window_events, self.window_seconds
        return replace(
            self,
            upper=upper if self.upper is None else self.upper,
            lower=lower if self.lower is None else self.lower,
            window_events=window_events,
            window_seconds=window_seconds,
        )

    def controller(self) -> PadController:
        """Return a controller at F = 0. The thresholds must be filled."""
        if self.upper is None or self.lower is None:
            raise DataError("upper and lower are not set; give both, or fill them with filled(upper=..., lower=...)")
        return PadController(maximum=self.maximum, step=self.step, upper=self.upper, lower=self.lower)

    def __str__(self) -> str:
        if self == OFF:
            return "off"
        parts = [f"max={percent(self.maximum)}", f"step={percent(self.step)}"]
        parts += [
            f"{name}={_duration(value)}"
            for name, value in (("upper", self.upper), ("lower", self.lower), ("window", self.window_seconds))
            if value is not None
        ]
        if self.window_events is not None:
            parts.append(f"window={self.window_events}events")
        return ",".join(parts)


def parse_share(name: str, text: str, whole: bool = False) -> float:
    """Read a share such as 0.1% or 0.001; `whole` allows 100%.

    >>> parse_share("max", "0.1%")
    0.001
    """
    number = _decimal(text.removesuffix("%"))
    if number is not None and text.endswith("%"):
        number /= 100
    if number is None or not (0 <= number < 1 or (whole and number == 1)):
        most = "up to" if whole else "below"
        raise DataError(f"{name}={text} is no share {most} 100%; write for example {name}=0.1%")
    return float(number)


def percent(share: float) -> str:
    """Return a share as it is written.

    >>> percent(0.0002)
    '0.02%'
    """
    return f"{_plain(Decimal(repr(share)) * 100)}%"


def _read(name: str, text: str) -> tuple[str, float | int]:
    """Return the field that one setting fills, and its value."""
    if name in ("max", "step"):
        return {"max": "maximum", "step": "step"}[name], parse_share(name, text)
    if name in ("upper", "lower"):
        return name, _parse_duration(name, text, f"{name}=20ms or {name}=2s")
    if name == "window":
        count = text.removesuffix("events").removesuffix("event").strip()
        if count != text:
            number = _decimal(count)
            if number is None or number != int(number) or number < 1:
                raise DataError(f"window={text} is no number of events; write for example window=100events")
            return "window_events", int(number)
        return "window_seconds", _parse_duration(name, text, "window=100events or window=500ms")
    raise DataError(f"elastic settings have no {name!r}{suggestion(name, _NAMES)}")


def _parse_duration(name: str, text: str, example: str) -> float:
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyz").strip()
    unit = text[len(digits) :].strip()
    number = _decimal(digits)
    if number is None or number < 0:
        raise DataError(f"{name}={text} is no time; write for example {example}")
    if unit not in _SECONDS_OF:
        told = f"has the unit {unit!r}" if unit else "has no unit"
        raise DataError(f"{name}={text} {told}; units are {', '.join(_SECONDS_OF)}: write for example {example}")
    return float(number * _SECONDS_OF[unit])


def _decimal(text: str) -> Decimal | None:
    """Return the number that was written, exactly: binary fractions of a percent would not round-trip."""
    try:
        number = Decimal(text.strip())
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def _duration(seconds: float) -> str:
    exact = Decimal(repr(seconds))
    return f"{_plain(exact * 1000)}ms" if 0 < exact < 1 else f"{_plain(exact)}s"


def _plain(number: Decimal) -> str:
    """Return a number without an exponent and without zeros at the end."""
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _check_share(name: str, share: float) -> None:
    if not 0.0 <= share < 1.0:
        raise DataError(f"{name} is a share of the reported matches below 100%, such as 0.1%, not {share!r}")


OFF: Final = ElasticSettings(maximum=0.0)
"""Exact matching."""
