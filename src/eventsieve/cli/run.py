"""`eventsieve run`: a stream of events against a catalog, on Spark."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eventsieve.cli._io import emit, read_settings, say

if TYPE_CHECKING:
    from eventsieve.spark.streaming import MatchStream, Progress


def run(
    catalog: Annotated[str, typer.Option(metavar="DIR", help="The catalog's folder.")],
    source: Annotated[str, typer.Option(metavar="SOURCE", help="json:DIR, parquet:DIR, csv:DIR or generate:WORKLOAD.")],
    sink: Annotated[str, typer.Option(metavar="SINK", help="parquet:DIR, json:DIR or console.")],
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
    rate: Annotated[int, typer.Option(metavar="N", min=1, help="Events in a generated batch.")] = 10_000,
    events: Annotated[int | None, typer.Option(metavar="N", help="Generate this many events, then end.")] = None,
    dead_letter: Annotated[
        str | None, typer.Option(metavar="DIR", help="Where events go that cannot be matched. Else: in the checkpoint.")
    ] = None,
    ids: Annotated[
        str | None,
        typer.Option(metavar="TYPE", help="long or string for subscription ids. Else: as the catalog has them."),
    ] = None,
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

      eventsieve run --catalog shop --source json:incoming --sink parquet:matches --checkpoint state --until-empty
      eventsieve run --catalog shop --source csv:incoming --sink json:matches --checkpoint state --key tick_id:long
      --trigger 5 eventsieve run --catalog shop --source parquet:day --sink console --checkpoint state --metrics 9108
    """
    from eventsieve.catalog import Catalog
    from eventsieve.cli._progress import ProgressLine
    from eventsieve.spark.session import session
    from eventsieve.spark.sinks import ConsoleSink, parse_sink
    from eventsieve.spark.sources import Key, open_source
    from eventsieve.spark.streaming import MatchStream

    if ids not in (None, "long", "string"):
        raise typer.BadParameter("--ids is long or string")
    if output not in ("pairs", "arrays"):
        raise typer.BadParameter("--output is pairs or arrays")
    generated = source.startswith("generate:")
    if generated and until_empty and events is None:
        raise typer.BadParameter("a generated stream has no end of its own; say where with --events")
    keys = [Key.parse(text) for text in key or ["event_id"]]
    opened = Catalog.open(catalog)
    spark = session(None, **({"spark.master": master} if master else {}))
    target = parse_sink(spark, sink)
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
        open_source(spark, source, opened.schema, keys, rate, files, events),
        opened,
        target,
        checkpoint,
        key=[each.name for each in keys],
        output=output,  # type: ignore[arg-type]  # checked above
        matcher=matcher,
        ids=ids,  # type: ignore[arg-type]  # checked above
        dead_letter=dead_letter,
        facts={"source": source, "sink": sink, **({"rate": rate} if generated else {})},
        on_batch=done,
        **read_settings(param),
    )
    with line, stopping(stream):
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


@contextmanager
def stopping(stream: MatchStream) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM finish the batch; a second one ends at once."""

    def asked(number: int, frame: object) -> None:
        say("finishing the batch, then stopping (once more to stop at once)")
        stream.stop()
        signal.signal(number, before[signal.Signals(number)])

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, asked)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
