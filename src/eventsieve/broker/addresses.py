"""Sources and sinks by their addresses, as the command line names them: a scheme, a colon, and the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from eventsieve.broker.files import FileLetters, FileSink, FileSource, PipeSource
from eventsieve.broker.kafka.addresses import KafkaOptions, kafka_letters, kafka_sink, kafka_source, letters_beside
from eventsieve.broker.state import positions_file
from eventsieve.broker.transport import DeadLetters, Sink, Source
from eventsieve.broker.wire import Output
from eventsieve.errors import BrokerError
from eventsieve.kafka import PREFIX


@dataclass(frozen=True)
class SourceOptions:
    """What sources of all kinds are told."""

    follow: bool = True
    """Go on when what is there is read; otherwise end with it."""
    state: Path | None = None
    """The broker's state folder."""
    key: str | None = None
    """The field that names an event, where there is one."""
    kafka: KafkaOptions = field(default_factory=KafkaOptions)


@dataclass(frozen=True)
class SinkOptions:
    """What sinks of all kinds are told."""

    output: Output = "arrays"
    with_event: bool = False
    fsync: bool = True
    sources: Sequence[Source] = ()
    """The broker's sources: exactly once binds a sink to one of them."""
    kafka: KafkaOptions = field(default_factory=KafkaOptions)


def open_source(address: str, options: SourceOptions) -> Source:
    """Return the source at `json:FILE`, `json:FOLDER`, `json:-` or `kafka:BROKERS/TOPIC`."""
    scheme, rest = _split(address, "source", _SOURCES)
    return _SOURCES[scheme](rest, options)


def open_sink(address: str, options: SinkOptions) -> Sink:
    """Return the sink at `json:FILE`, `kafka:BROKERS/TOPIC` or `console`."""
    if options.kafka.exactly_once and not address.startswith(PREFIX):
        raise BrokerError(f"exactly once is from Kafka to Kafka; {address} is at least once")
    scheme, rest = _split("console:-" if address == "console" else address, "sink", _SINKS)
    return _SINKS[scheme](rest, options)


def open_letters(address: str | None, sources: Sequence[str], kafka: KafkaOptions) -> DeadLetters | None:
    """Return the place for dead letters: `kafka:BROKERS/TOPIC`, else a file.

    Without an address, what came from Kafka goes back to Kafka, and the rest is the broker's own affair.
    """
    if address is None and sources and all(source.startswith(PREFIX) for source in sources):
        address = letters_beside(sources[0])
    if address is None:
        return None
    return kafka_letters(address, kafka) if address.startswith(PREFIX) else FileLetters(Path(address))


def _split(address: str, what: str, known: Iterable[str]) -> tuple[str, str]:
    scheme, _, rest = address.partition(":")
    if scheme not in known or not rest:
        forms = ", ".join("console" if each == "console" else f"{each}:..." for each in known)
        raise BrokerError(f"a {what} is one of {forms}, not {address!r}")
    return scheme, rest


def _kafka_source(rest: str, options: SourceOptions) -> Source:
    return kafka_source(f"{PREFIX}{rest}", options.kafka, options.follow, options.key is None)


def _kafka_sink(rest: str, options: SinkOptions) -> Sink:
    return kafka_sink(f"{PREFIX}{rest}", options.kafka, options.output, options.with_event, options.sources)


def _json_source(path: str, options: SourceOptions) -> Source:
    if path == "-":
        return PipeSource()
    positions = None if options.state is None else positions_file(options.state, path)
    return FileSource(path, follow=options.follow, positions=positions)


def _json_sink(path: str, options: SinkOptions) -> Sink:
    return FileSink(path, options.output, options.with_event, options.fsync)


_SOURCES: Final[dict[str, Callable[[str, SourceOptions], Source]]] = {"json": _json_source, "kafka": _kafka_source}
_SINKS: Final[dict[str, Callable[[str, SinkOptions], Sink]]] = {
    "json": _json_sink, "kafka": _kafka_sink, "console": _json_sink,
}  # fmt: skip
