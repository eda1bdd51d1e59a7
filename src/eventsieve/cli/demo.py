"""`eventsieve demo`: the whole pipeline on this machine, in under two minutes, with nothing to configure."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from eventsieve.cli._io import emit, say

if TYPE_CHECKING:
    from eventsieve.catalog import Catalog
    from eventsieve.spark.streaming import Progress

_KEY: Final = "event_id"
_EXPLAINED: Final = 3


def demo(
    subscriptions: Annotated[int, typer.Option(metavar="N", min=1000, help="Subscriptions in the catalog.")] = 100_000,
    events: Annotated[int, typer.Option(metavar="N", min=1, help="Events in the stream.")] = 20_000,
    rate: Annotated[int, typer.Option(metavar="N", min=1, help="Events in a batch.")] = 2_000,
    matcher: Annotated[str, typer.Option(metavar="NAME", help="One of `eventsieve matchers`, or auto.")] = "auto",
    folder: Annotated[
        str | None, typer.Option(metavar="DIR", help="A new folder for all files. Else: a temporary one.")
    ] = None,
) -> None:
    """Make a catalog, stream market ticks through it on Spark, change it meanwhile, and explain some matches.

    Everything is real: a durable catalog, an index built by a Spark job, micro-batches, exactly-once files. It ends by
    itself; the files stay for you to look at.

    Examples:

      eventsieve demo
      eventsieve demo --subscriptions 1000000 --matcher rein
    """
    from eventsieve.cli._progress import ProgressLine
    from eventsieve.cli._stopping import stopping
    from eventsieve.spark.session import session
    from eventsieve.spark.sinks import FileSink
    from eventsieve.spark.sources import Key, open_source
    from eventsieve.spark.streaming import MatchStream

    root = Path(folder) if folder else Path(tempfile.mkdtemp(prefix="eventsieve-demo-"))
    catalog = _catalog(root / "catalog", subscriptions)
    began = time.monotonic()
    spark = session()
    say(f"Spark {spark.version} on {spark.sparkContext.master}, started in {time.monotonic() - began:.0f} s")
    n_batches = -(-events // rate)
    line = ProgressLine()
    edits = _Edits(catalog, n_batches)

    def done(progress: Progress) -> None:
        line.add(progress)
        edits.after(progress.batch)
        if progress.batch + 1 >= n_batches:
            stream.stop()

    stream = MatchStream(
        open_source(spark, "generate:ticks", catalog.schema, [Key(_KEY)], rate, 1, events),
        catalog,
        FileSink(spark, "parquet", str(root / "matches")),
        root / "checkpoint",
        key=_KEY,
        matcher=matcher,
        on_batch=done,
    )
    say(f"streaming {events:,} ticks in {n_batches} batches; the catalog changes on the way")
    with line, stopping(stream.stop, "finishing the batch"):
        stream.run()
    _explain(catalog, spark.read.parquet(str(root / "matches")), events)
    edits.report()
    say(f"\nfiles: {root}/catalog  {root}/matches  {root}/checkpoint")
    say(f"try:   eventsieve sub history {root}/catalog")
    emit({**line.summary(), "folder": str(root)})


def _catalog(path: Path, n: int) -> Catalog:
    """Make a catalog of market subscriptions, as a user would with `eventsieve sub import`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from eventsieve.catalog import Catalog
    from eventsieve.workload import filter_texts, standard

    began = time.monotonic()
    workload = standard("ticks", n=n)
    ids, filters = zip(*filter_texts(workload), strict=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    source = path.parent / "subscriptions.parquet"
    pq.write_table(pa.table({"id": pa.array(ids, pa.int64()), "filter": pa.array(filters)}), source)
    catalog = Catalog.create(path, workload.schema(), author="demo")
    catalog.import_parquet(source, author="demo")
    say(f"a catalog of {n:,} subscriptions in {time.monotonic() - began:.0f} s, for example:")
    for number in range(3):
        say(f"  {ids[number]}: {filters[number]}")
    return catalog


class _Edits:
    """Changes of the catalog at a third and at two thirds of the stream."""

    def __init__(self, catalog: Catalog, n_batches: int) -> None:
        self._catalog, self._at = catalog, {n_batches // 3: self._add, 2 * n_batches // 3: self._narrow}
        self._said: list[str] = []

    def after(self, batch: int) -> None:
        """Make the change that is due after a batch."""
        change = self._at.get(batch)
        if change is not None:
            change()

    def _add(self) -> None:
        with self._catalog.edit(author="demo") as edit:
            edit.add(1_000_000_001, "symbol = 'A' AND price > 0", labels={"added": "while running"})
            edit.remove(0)
        self._said.append(f"version {edit.version}: added 1000000001, removed 0")

    def _narrow(self) -> None:
        version = self._catalog.replace(1_000_000_001, "symbol = 'A' AND volume > 500000", author="demo")
        self._said.append(f"version {version}: 1000000001 asks for volume too")

    def report(self) -> None:
        """Say what was changed while the stream ran."""
        say("\nchanges while it ran:")
        for text in self._said:
            say(f"  {text}")


def _explain(catalog: Catalog, matches: Any, events: int) -> None:
    """Explain a few matches from the files, each at the version it names."""
    from eventsieve.index.explain import explain_condition
    from eventsieve.spark.generated import CHUNK, event_table
    from eventsieve.workload import standard

    say("\na few matches, explained:")
    rows = matches.orderBy("subscription_id", "event_id").limit(_EXPLAINED).collect()
    for row in rows:
        number = int(row[_KEY])
        drawn = (
            event_table(standard("ticks", n=0), CHUNK, seed=number // CHUNK + 1).slice(number % CHUNK, 1).to_pylist()[0]
        )
        subscriptions = catalog.subscriptions(row.catalog_version)
        condition = subscriptions.condition(row.subscription_id)
        say(f"event {number} and subscription {row.subscription_id}, catalog version {row.catalog_version}:")
        say(str(explain_condition(condition, catalog.schema, drawn)))
    say(f"\n{matches.count():,} matches of {events:,} events in files, exactly once:")
    for row in matches.groupBy("catalog_version").count().orderBy("catalog_version").collect():
        say(f"  catalog version {row[0]}: {row[1]:,} matches")
