"""`eventsieve broker`: a stream of events against a catalog, in one process, without Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from eventsieve.cli._io import emit, open_input, read_settings, say
from eventsieve.cli._stopping import stopping

if TYPE_CHECKING:
    from eventsieve.broker.broker import Broker
    from eventsieve.broker.metrics import Metrics
    from eventsieve.index.index import EventsLike, Index

_LOOK_EVERY: Final = 0.2
"""Seconds between two looks at whether the broker has ended or is asked to."""
_MOST_LEARNED: Final = 100_000
"""Lines that are read to learn from."""


def broker(
    catalog: Annotated[str, typer.Option(metavar="DIR", help="The catalog's folder.")],
    source: Annotated[
        list[str],
        typer.Option(metavar="SOURCE", help="json:FILE, json:FOLDER, json:- or kafka:BROKERS/TOPIC; may be repeated."),
    ],
    sink: Annotated[str, typer.Option(metavar="SINK", help="json:FILE, kafka:BROKERS/TOPIC or console.")],
    state: Annotated[
        str | None, typer.Option(metavar="DIR", help="Where the broker keeps what it needs to go on after a stop.")
    ] = None,
    key: Annotated[str | None, typer.Option(metavar="FIELD", help="The field that names an event.")] = None,
    output: Annotated[
        str, typer.Option(metavar="FORM", help="arrays: a record per event; pairs: one per match.")
    ] = "arrays",
    with_event: Annotated[bool, typer.Option("--with-event", help="Write the event itself with every record.")] = False,
    matcher: Annotated[
        str, typer.Option(metavar="NAME", help="One of `eventsieve matchers`, or auto (with --elastic: spare-rein).")
    ] = "auto",
    param: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="A parameter of the matcher.")] = None,
    elastic: Annotated[
        str,
        typer.Option(
            metavar="SETTINGS", help="off, on, or max=0.1%,step=0.02%,upper=20ms,lower=15ms,window=100events."
        ),
    ] = "off",
    learn: Annotated[
        str | None, typer.Option(metavar="FILE", help="Events like those to come: skip plans are measured by them.")
    ] = None,
    until_empty: Annotated[bool, typer.Option("--until-empty", help="Match what is there, then end.")] = False,
    workers: Annotated[int, typer.Option(min=1, metavar="N", help="Threads that match.")] = 1,
    queue: Annotated[int, typer.Option(min=1, metavar="N", help="Events that wait to be matched, at most.")] = 10_000,
    batch: Annotated[int, typer.Option(min=1, metavar="N", help="Events matched together, at most.")] = 256,
    dead_letter: Annotated[
        str | None,
        typer.Option(
            metavar="PLACE",
            help="FILE or kafka:BROKERS/TOPIC for what cannot be matched. Else: TOPIC-dead-letter, or in the state.",
        ),
    ] = None,
    kafka: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A setting of Kafka's clients, or @FILE with many.")
    ] = None,
    start: Annotated[
        str, typer.Option("--from", metavar="WHERE", help="Begin Kafka at earliest, latest, a time, or JSON offsets.")
    ] = "earliest",
    exactly_once: Annotated[
        bool, typer.Option("--exactly-once", help="From Kafka to Kafka: matches and offsets in one transaction.")
    ] = False,
    metrics: Annotated[int | None, typer.Option(metavar="PORT", help="Serve Prometheus metrics on this port.")] = None,
) -> None:
    """Match events against a catalog as they come, within milliseconds, in one process.

    A change of the catalog is in force half a second later, and every record names the catalog version it was made
    with. With --elastic, matching gives way under load within a bound on false positives, and returns to exact by
    itself. With --state the same command goes on where it stopped or crashed: nothing is lost, and what comes twice has
    the same event, subscription and version. Ctrl-C and SIGTERM deliver what was read, then stop. Standard output has
    one JSON line at the end, or the matches themselves with --sink console.

    Examples:

      eventsieve broker --catalog shop --source json:incoming --sink json:matches.jsonl --state state
      tail -f ticks.jsonl | eventsieve broker --catalog shop --source json:- --sink console --key tick
      eventsieve broker --catalog shop --source json:day.jsonl --sink console --until-empty
      eventsieve broker --catalog shop --source json:in --sink console --matcher spare-rein --elastic max=0.1%
      eventsieve broker --catalog shop --source kafka:localhost:9092/ticks --sink kafka:localhost:9092/matches
      --exactly-once
    """
    from eventsieve.broker.addresses import SinkOptions, SourceOptions, open_letters, open_sink, open_source
    from eventsieve.broker.broker import Broker
    from eventsieve.broker.kafka.addresses import KafkaOptions, default_group
    from eventsieve.broker.kafka.owners import Owners
    from eventsieve.catalog import Catalog
    from eventsieve.elastic.settings import ElasticSettings
    from eventsieve.kafka import parse_start
    from eventsieve.kafka import read_settings as kafka_settings

    if output not in ("arrays", "pairs"):
        raise typer.BadParameter("--output is arrays or pairs")
    folder = None if state is None else Path(state)
    settings = ElasticSettings.parse(elastic)
    if learn is not None and not settings.enabled:
        raise typer.BadParameter("--learn is for skip plans; say --elastic on, or leave it out")
    opened = Catalog.open(catalog)
    clients = KafkaOptions(
        kafka_settings(kafka or []), parse_start(start), default_group(source[0], sink), exactly_once, Owners(opened)
    )
    sources = [open_source(each, SourceOptions(not until_empty, folder, key, clients)) for each in source]
    told = SinkOptions(output, with_event, sources=sources, kafka=clients)  # type: ignore[arg-type]  # checked above
    target = open_sink(sink, told)
    running = Broker.of_catalog(
        opened,
        matcher=matcher,
        params=read_settings(param),
        elastic=settings,
        sample=None if learn is None else _sample(learn),
        sources=sources,
        state=folder,
        workers=workers,
        queue=queue,
        batch=batch,
        key=key,
        unknown="ignore",
        dead_letters=open_letters(dead_letter, source, clients),
    )
    # One sink, so nobody is kept waiting by it but the sources: they can.
    running.attach(target, name="sink", everything=True, when_full="block", retries=5, when_refused="stop")
    _run(running, metrics)
    if sink not in ("console", "json:-"):
        emit(running.stats().summary())


def _sample(path: str) -> Callable[[Index], EventsLike]:
    def events(index: Index) -> EventsLike:
        from eventsieve.cli._inputs import EventReader

        with open_input(path) as lines:
            [batch] = EventReader(path, lines, unknown="ignore").batches(index.schema, _MOST_LEARNED)
        return batch.events

    return events


def _run(running: Broker, metrics: int | None) -> None:
    """Let a broker run until it ends, fails or is asked to stop."""
    from eventsieve.cli._broker_line import BrokerLine

    served = _served(running, metrics)
    asked = threading.Event()
    try:
        with BrokerLine() as line, stopping(asked.set, "delivering what was read"):
            running.start()
            while not asked.is_set() and not running.wait(_LOOK_EVERY):
                line.show(running.stats())
            running.stop(timeout=None)
    finally:
        running.stop(timeout=0.0)
        if served is not None:
            served.close()


def _served(running: Broker, port: int | None) -> Metrics | None:
    if port is None:
        return None
    from eventsieve.broker.metrics import Metrics

    served = Metrics(running.stats, port)
    say(f"metrics on port {served.port}")
    return served
