"""Sources and sinks by their addresses, as the command line names them: a scheme, a colon, and the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from eventsieve.broker.files import FileSink, FileSource, PipeSource
from eventsieve.broker.state import positions_file
from eventsieve.broker.transport import Sink, Source
from eventsieve.broker.wire import Output
from eventsieve.errors import BrokerError


@dataclass(frozen=True)
class SourceOptions:
    """What sources of all kinds are told."""

    follow: bool = True
    """Go on when what is there is read; otherwise end with it."""
    state: Path | None = None
    """The broker's state folder."""


@dataclass(frozen=True)
class SinkOptions:
    """What sinks of all kinds are told."""

    output: Output = "arrays"
    with_event: bool = False
    fsync: bool = True


def open_source(address: str, options: SourceOptions) -> Source:
    """Return the source at `json:FILE`, `json:FOLDER`, `json:-`, or whatever else is registered."""
    scheme, rest = _split(address, "source", _SOURCES)
    return _SOURCES[scheme](rest, options)


def open_sink(address: str, options: SinkOptions) -> Sink:
    """Return the sink at `json:FILE`, `console`, or whatever else is registered."""
    scheme, rest = _split("console:-" if address == "console" else address, "sink", _SINKS)
    return _SINKS[scheme](rest, options)


def _split(address: str, what: str, known: Iterable[str]) -> tuple[str, str]:
    scheme, _, rest = address.partition(":")
    if scheme not in known or not rest:
        forms = ", ".join("console" if each == "console" else f"{each}:..." for each in known)
        raise BrokerError(f"a {what} is one of {forms}, not {address!r}")
    return scheme, rest


def _json_source(path: str, options: SourceOptions) -> Source:
    if path == "-":
        return PipeSource()
    positions = None if options.state is None else positions_file(options.state, path)
    return FileSource(path, follow=options.follow, positions=positions)


def _json_sink(path: str, options: SinkOptions) -> Sink:
    return FileSink(path, options.output, options.with_event, options.fsync)


_SOURCES: Final[dict[str, Callable[[str, SourceOptions], Source]]] = {"json": _json_source}
_SINKS: Final[dict[str, Callable[[str, SinkOptions], Sink]]] = {"json": _json_sink, "console": _json_sink}
