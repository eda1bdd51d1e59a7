"""`eventsieve run`: a stream of events against a catalog, on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from eventsieve.cli._io import emit, read_settings, say
from eventsieve.cli._stopping import stopping

if TYPE_CHECKING:
    from eventsieve.spark.streaming import Progress


def run(
    catalog: Annotated[str, typer.Option(metavar="DIR", help="The catalog's folder.")],
    source: Annotated[
        str,
        typer.Option(metavar="SOURCE", help="json:DIR, parquet:DIR, csv:DIR, kafka:BROKERS/TOPIC, generate:WORKLOAD."),
    ],
    sink: Annotated[str, typer.Option(metavar="SINK", help="parquet:DIR, json:DIR, kafka:BROKERS/TOPIC or console.")],
    checkpoint: Annotated[str, typer.Option(metavar="DIR", help="Where the stream keeps what it needs to go on.")],
    key: Annotated[
        list[str] | None, typer.Option(metavar="NAME[:TYPE]", help="Column that names an event; may be repeated.")
    ] = None,
    output: Annotated[
        str, typer.Option(metavar="FORM", help="pairs: a row per match; arrays: a row per event.")
    ] = "pairs",
    matcher: Annotated[str, typer.Option(metavar="NAME", help="One of `eventsieve matchers`, or auto.")] = "auto",
    param: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="A parameter of the matcher.")] = None,
    trigger: Annotated[float, typer.Option(metavar="SECONDS", help="Least time between two batches.")] = 0.0,
    until_empty: Annotated[bool, typer.Option("--until-empty", help="Match what is there, then end.")] = False,
    files: Annotated[int, typer.Option(metavar="N", min=1, help="Files in a batch, at most.")] = 100,
    rate: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Events in a batch: generated 10,000; from Kafka 100,000 at most."),
    ] = None,
    events: Annotated[int | None, typer.Option(metavar="N", help="Generate this many events, then end.")] = None,
    dead_letter: Annotated[
        str | None,
        typer.Option(metavar="PLACE", help="DIR or kafka:BROKERS/TOPIC for events that cannot be matched."),
    ] = None,
    kafka: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A setting of Kafka's clients, or @FILE with many.")
    ] = None,
    start: Annotated[
        str, typer.Option("--from", metavar="WHERE", help="Begin Kafka at earliest, latest, a time, or JSON offsets.")
    ] = "earliest",
    keep: Annotated[
        list[str] | None,
        typer.Option(metavar="PART", help="Part of a Kafka record that its matches keep; value is the event itself."),
    ] = None,
    largest: Annotated[int, typer.Option(metavar="BYTES", min=1, help="A larger Kafka value is a dead letter.")] = 1
    << 20,
    ids: Annotated[
        str | None,
        typer.Option(metavar="TYPE", help="long or string for subscription ids. Else: as the catalog has them."),
    ] = None,
    elastic: Annotated[
        str,
        typer.Option(metavar="SETTINGS", help="Allow false matches under load: max=0.1%,step=0.02%,... or on."),
    ] = "off",
    audit: Annotated[
        str,
        typer.Option(metavar="SHARE", help="Match this share of the events exactly too, to count what is false."),
    ] = "0%",
    metrics: Annotated[int | None, typer.Option(metavar="PORT", help="Serve Prometheus metrics on this port.")] = None,
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="A Spark master, when not run by spark-submit.")
    ] = None,
) -> None:
    """Match a stream of events against a catalog, which may change meanwhile.

    A change of the catalog takes effect with the next batch, and every match names the catalog version it was made
    with. After a crash the same command goes on where it stopped: files in the sink have every match exactly once.
    Ctrl-C and SIGTERM finish the batch. Standard output has one JSON line at the end, or the matches themselves with
    --sink console.

    Examples:

      eventsieve run --catalog shop --source json:in --sink parquet:out --checkpoint state --until-empty
      eventsieve run --catalog shop --source csv:in --sink json:out --checkpoint state --key tick_id:long --trigger 5
      eventsieve run --catalog shop --source parquet:day --sink console --checkpoint state --metrics 9108
      eventsieve run --catalog shop --source json:in --sink json:out --checkpoint state --elastic max=0.1% --audit 1%
      eventsieve run --catalog shop --source kafka:localhost:9092/ticks --sink kafka:localhost:9092/matches
      --checkpoint state
    """
    from eventsieve.catalog import Catalog
    from eventsieve.cli._progress import ProgressLine
    from eventsieve.cli._streams import Ends
    from eventsieve.elastic.settings import ElasticSettings, parse_share
    from eventsieve.kafka import PREFIX
    from eventsieve.spark import kafka as kafka_clients
    from eventsieve.spark.session import session
    from eventsieve.spark.sinks import ConsoleSink
    from eventsieve.spark.sources import Key
    from eventsieve.spark.streaming import MatchStream

    if ids not in (None, "long", "string"):
        raise typer.BadParameter("--ids is long or string")
    if output not in ("pairs", "arrays"):
        raise typer.BadParameter("--output is pairs or arrays")
    generated = source.startswith("generate:")
    if generated and until_empty and events is None:
        raise typer.BadParameter("a generated stream has no end of its own; say where with --events")
    from_kafka = source.startswith(PREFIX)
    rate = rate or (100_000 if from_kafka else 10_000)
    keys = [Key.parse(text) for text in key or ([] if from_kafka else ["event_id"])]
    settings = kafka_clients.KafkaOptions(kafka_clients.read_settings(kafka or []), start, rate, largest)
    ends = Ends(source, sink, dead_letter, keys, keep or [], settings)
    ends.check()
    opened = Catalog.open(catalog)
    spark = session(None, kafka=ends.on_kafka, **({"spark.master": master} if master else {}))
    incoming = ends.open_source(spark, opened, rate, files, events)
    target, target_identity = ends.open_sink(spark, opened, output)
    line = ProgressLine()
    served = _served(metrics)

    def done(progress: Progress) -> None:
        line.add(progress)
        if served is not None:
            served.add(progress)
        # Spark's counter gives every batch the same number of events, so a restart knows how far it is.
        if events is not None and (progress.batch + 1) * rate >= events:
            stream.stop()

    stream = MatchStream(
        incoming.events,
        opened,
        target,
        checkpoint,
        key=incoming.carried,
        output=output,  # type: ignore[arg-type]  # checked above
        matcher=matcher,
        ids=ids,  # type: ignore[arg-type]  # checked above
        dead_letter=ends.open_letters(spark),
        behind=incoming.behind,
        facts={"source": incoming.identity, "sink": target_identity, **({"rate": rate} if generated else {})},
        on_batch=done,
        elastic=ElasticSettings.parse(elastic),
        audit=parse_share("audit", audit, whole=True),
        **read_settings(param),
    )
    with line, stopping(stream.stop, "finishing the batch"):
        stream.run(trigger, until_empty and not generated)
    if served is not None:
        served.close()
    if not isinstance(target, ConsoleSink):
        emit(line.summary())


def _served(port: int | None) -> Any:
    if port is None:
        return None
    from eventsieve.spark.metrics import Metrics

    served = Metrics(port)
    say(f"metrics on port {served.port}")
    return served
