"""`eventsieve generate`: a workload as files, to try things on."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eventsieve.cli._io import read_settings, say

if TYPE_CHECKING:
    from eventsieve.model.schema import Schema


def generate(
    name: Annotated[str, typer.Argument(metavar="NAME", help="bop, full, gem, hem, htree, eem or ticks.")],
    n: Annotated[int, typer.Option(min=0, metavar="N", help="Subscriptions.")] = 1000,
    events: Annotated[int, typer.Option(min=0, metavar="M", help="Events.")] = 1000,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the files; made if it is not there.")] = Path(
        "."
    ),
    format: Annotated[str, typer.Option(metavar="FORMAT", help="jsonl or parquet.")] = "jsonl",
    seed: Annotated[int, typer.Option(min=0, metavar="S", help="The same seed draws the same files.")] = 1,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Another parameter of the workload, as k=8.")
    ] = None,
) -> None:
    """Write a workload as schema.json, subscriptions.jsonl and events.jsonl.

    The standard workloads have the parameters of the papers; `ticks` is a synthetic day of market data with readable
    attributes. What can be set, and what it means, is in docs/workloads.md.

    Examples:

      eventsieve generate ticks --n 1000 --events 500 --out demo
      cd demo && eventsieve match subscriptions.jsonl events.jsonl --schema schema.json
      eventsieve generate bop --n 100000 --format parquet --out bop
      eventsieve generate gem --set match_rate=0.05 --set k=4 --seed 7 --out gem
    """
    import json

    from eventsieve.workload import event_rows, filter_texts, measured_match_rate, standard

    if format not in _WRITERS:
        raise typer.BadParameter(f"{format!r} is no format; write --format jsonl or --format parquet")
    workload = standard(name, **{**read_settings(settings), "n": n})
    schema = workload.schema()
    out.mkdir(parents=True, exist_ok=True)
    (out / "schema.json").write_text(json.dumps(schema.to_json(), indent=1) + "\n", encoding="utf-8")
    subscriptions = ({"id": id, "filter": text} for id, text in filter_texts(workload, seed))
    write = _WRITERS[format]
    files = [
        write(out / f"subscriptions.{format}", subscriptions, None),
        write(out / f"events.{format}", event_rows(workload, events, seed), schema),
    ]
    say(f"{n} subscriptions and {events} events in {out / 'schema.json'}, {files[0]} and {files[1]}")
    if workload.match_rate is not None:
        say(f"width tuned to {workload.effective_width.low:.4f} for a match rate of {workload.match_rate}")
    say(f"an event matches {measured_match_rate(workload, seed):.3%} of the subscriptions, on a sample")


def _write_lines(path: Path, rows: Iterable[dict[str, Any]], _schema: Schema | None) -> Path:
    import json

    with open(path, "w", encoding="utf-8") as lines:
        lines.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    return path


def _write_parquet(path: Path, rows: Iterable[dict[str, Any]], schema: Schema | None) -> Path:
    """Write a column per attribute; an absent attribute is null."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if schema is None:
        columns = pa.schema({"id": pa.int64(), "filter": pa.string()})
    else:
        # Times stay ISO texts, which every reader of events understands.
        types = {"float": pa.float64(), "int": pa.int64(), "bool": pa.bool_()}
        columns = pa.schema({name: types.get(kind.kind, pa.string()) for name, kind in schema.items()})
    pq.write_table(pa.Table.from_pylist(list(rows), schema=columns), path)
    return path


_WRITERS = {"jsonl": _write_lines, "parquet": _write_parquet}
