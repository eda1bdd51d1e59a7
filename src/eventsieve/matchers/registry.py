"""The list of all matchers. Tests, the command line, benchmarks and tables are derived from it."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from eventsieve.errors import MatcherError, suggestion

if TYPE_CHECKING:
    from eventsieve.matchers.base import Matcher

_CLASSES: Final = {
    "simple": "eventsieve.matchers.simple:Simple",
    "ada-rein": "eventsieve.matchers.ada_rein:AdaRein",
    "be-tree": "eventsieve.matchers.be_tree:BETree",
    "gem-tree": "eventsieve.matchers.gem_tree:GemTree",
    "h-tree": "eventsieve.matchers.h_tree:HTree",
    "hem": "eventsieve.matchers.hem:Hem",
    "op-index": "eventsieve.matchers.op_index:OpIndex",
    "rein": "eventsieve.matchers.rein:Rein",
    "rein-f": "eventsieve.matchers.rein:ReinF",
    "rein-o": "eventsieve.matchers.rein_o:ReinO",
    "sieve": "eventsieve.matchers.sieve:Sieve",
    "spare-rein": "eventsieve.matchers.spare_rein:SpareRein",
    "tama": "eventsieve.matchers.tama:Tama",
    "tama-o": "eventsieve.matchers.tama_o:TamaO",
    "wpa-rein": "eventsieve.matchers.wpa_rein:WpaRein",
}
"""Name -> where its class is. A matcher is imported when it is first asked for, since compiled code loads slowly."""


def matchers() -> tuple[str, ...]:
    """Return the names of all matchers.

    >>> "simple" in matchers()
    True
    """
    return tuple(_CLASSES)


def elastic_matchers() -> tuple[str, ...]:
    """Return the names of the matchers that take a bound on false positives."""
    return tuple(name for name in _CLASSES if matcher_class(name).capabilities.elastic)


def matcher_class(name: str) -> type[Matcher]:
    """Return the class of a matcher; raise MatcherError with the names there are."""
    if name not in _CLASSES:
        raise MatcherError(f"no matcher is named {name!r}{suggestion(name, _CLASSES)}")
    module, _, attribute = _CLASSES[name].partition(":")
    found: type[Matcher] = getattr(import_module(module), attribute)
    return found


def make_matcher(name: str, **params: Any) -> Matcher:
    """Return an empty matcher with these parameters, checked by name."""
    found = matcher_class(name)
    known = found.parameter_names()
    for param in params:
        if param not in known:
            raise MatcherError(
                f"matcher {name!r} takes no parameter {param!r}"
                + (suggestion(param, known) if known else "; it takes none")
            )
    try:
        return found(**params)
    except (TypeError, ValueError) as cause:
        raise MatcherError(f"matcher {name!r}: {cause}") from cause


def default_params(name: str) -> dict[str, Any]:
    """Return a matcher's parameters with their default values."""
    found = matcher_class(name)
    parameters = inspect.signature(found).parameters
    return {param: parameters[param].default for param in found.parameter_names()}
