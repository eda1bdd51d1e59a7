"""`eventsieve profile`: what the subscriptions of a catalog look like, and how often events meet them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from eventsieve.cli._io import emit, for_people, show

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame, SparkSession

    from eventsieve.model.schema import Schema
    from eventsieve.model.statistics import Statistics

_BARS: Final = " ▁▂▃▄▅▆▇█"
_SETS_SHOWN: Final = 10


def profile(
    catalog: Annotated[str, typer.Argument(metavar="CATALOG", help="The catalog's folder.")],
    events: Annotated[
        str | None, typer.Option(metavar="SOURCE", help="A sample of events: json:PATH, parquet:PATH or csv:PATH.")
    ] = None,
    version: Annotated[int | None, typer.Option(metavar="N", help="Another version than the newest.")] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON line, on a terminal too.")] = False,
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="A Spark master, when not run by spark-submit.")
    ] = None,
) -> None:
    """Show which attributes subscriptions ask for, how wide their ranges are and, with events, how many match.

    The numbers come from a Spark job over all subscriptions. On a terminal they are a table with small histograms:
    widths from single values (left) to the whole domain (right), bounds from low to high.

    Examples:

      eventsieve profile shop
      eventsieve profile shop --events json:yesterday
      eventsieve profile shop --json | jq .mean_predicates
    """
    from eventsieve.catalog import Catalog
    from eventsieve.spark.session import session
    from eventsieve.spark.statistics import profile as measured

    opened = Catalog.open(catalog)
    schema = opened.schema_at(version)
    spark = session(None, kafka=False, **({"spark.master": master} if master else {}))
    record = measured(opened, None if events is None else _read(spark, events, schema), version=version, spark=spark)
    if for_people(json):
        show(_tables(schema, record))
    else:
        emit(_plain(schema, record))


def _read(spark: SparkSession, source: str, schema: Schema) -> DataFrame:
    from pathlib import Path

    from eventsieve.errors import DataError
    from eventsieve.spark.columns import file_schema

    form, _, path = source.partition(":")
    if form not in ("json", "parquet", "csv") or not path:
        raise DataError(f"events are json:PATH, parquet:PATH or csv:PATH, not {source!r}")
    if "://" not in path and not Path(path).exists():
        raise DataError(f"{path} does not exist; name a file or a folder of events")
    if form == "parquet":
        return spark.read.parquet(path)
    reader = spark.read.schema(file_schema(schema))
    return reader.json(path) if form == "json" else reader.option("header", True).csv(path, enforceSchema=False)


def _plain(schema: Schema, record: Statistics) -> dict[str, Any]:
    """Return the record by attribute name, as JSON values."""
    from eventsieve.model.statistics import WIDTH_EDGES

    attributes = {}
    for a, name in enumerate(schema.names):
        if record.clauses_of_attribute[a] == 0:
            continue
        attributes[name] = {
            "clauses": int(record.clauses_of_attribute[a]),
            "frequency": round(float(record.frequency[a]), 6),
            "mean_width": round(float(record.mean_width[a]), 6),
            "width_classes": record.width_classes[a].tolist(),
            "bound_quartiles": _quartiles(record.bounds.value[a]),
        }
    return {
        "clauses": record.n_clauses,
        "predicates": record.n_predicates,
        "mean_predicates": round(record.mean_size, 3),
        "clauses_of_size": record.clauses_of_size.tolist(),
        "width_edges": list(WIDTH_EDGES),
        "distinct_attribute_sets": record.sets.distinct,
        "attribute_sets": [
            {"attributes": [schema.names[a] for a in names], "clauses": count}
            for names, count in record.sets.top[:_SETS_SHOWN]
        ],
        "attributes": attributes,
        "match_rate": record.match_rate,
    }


def _quartiles(values: NDArray[Any]) -> list[float] | None:
    import numpy as np

    if np.isnan(values).all():
        return None
    return [float(values[step]) for step in np.linspace(0, len(values) - 1, 5).astype(int)]


def _tables(schema: Schema, record: Statistics) -> Any:
    import numpy as np
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    sizes = record.clauses_of_size
    smallest = int(np.flatnonzero(sizes)[0]) if sizes.any() else 0
    lines = [
        f"{record.n_clauses:,} clauses, {record.n_predicates:,} predicates",
        f"{record.mean_size:.1f} predicates per clause, from {smallest} to {max(0, sizes.size - 1)}: {bars(sizes)}",
        f"{record.sets.distinct:,} different sets of attributes",
    ]
    if record.match_rate is not None:
        expected = record.match_rate * record.n_clauses
        lines.append(f"an event matches {record.match_rate:.4%} of the clauses, about {expected:,.0f}")
    table = Table(header_style="bold", box=None, pad_edge=False)
    for heading in ("attribute", "clauses", "share", "mean width", "widths", "bounds"):
        table.add_column(heading, justify="left" if heading in ("attribute", "widths", "bounds") else "right")
    for a in np.argsort(-record.clauses_of_attribute, kind="stable").tolist():
        if record.clauses_of_attribute[a] == 0:
            continue
        table.add_row(
            schema.names[a],
            f"{record.clauses_of_attribute[a]:,}",
            f"{record.frequency[a]:.1%}",
            f"{record.mean_width[a]:.3f}",
            bars(record.width_classes[a]),
            _density(record.bounds.value[a]),
        )
    return Group(*(Text(line) for line in lines), table)


def bars(counts: NDArray[Any]) -> str:
    """Return counts as a row of bars; whatever is there at all can be seen.

    >>> import numpy as np
    >>> bars(np.array([0, 1, 50, 100]))
    ' ▁▄█'
    """
    top = max(1, int(counts.max(initial=0)))
    return "".join(_BARS[0 if count == 0 else max(1, round(int(count) * 8 / top))] for count in counts)


def _density(quantiles: NDArray[Any]) -> str:
    """Return how dense values lie between their lowest and highest one, from their quantiles."""
    import numpy as np

    if np.isnan(quantiles).all():
        return ""
    if quantiles[0] == quantiles[-1]:
        return _BARS[-1]
    counts, _ = np.histogram(quantiles, bins=12, range=(float(quantiles[0]), float(quantiles[-1])))
    return bars(counts)
