"""`eventsieve bench`: how fast is each matcher on a workload, as a multiple of the reference scan?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eventsieve.cli._io import PROBLEMS, emit, read_settings, say

if TYPE_CHECKING:
    from eventsieve.bench import Entry, Record
    from eventsieve.bench.timing import Notify
    from eventsieve.workload import Workload

_TABLE_WIDTH = 130
"""Columns of the table where the output is no terminal."""


def bench(
    workload: Annotated[
        str, typer.Option(metavar="NAME", help="bop, full, gem, hem, htree, eem or ticks.", show_default=True)
    ] = "bop",
    matchers: Annotated[
        str,
        typer.Option(
            metavar="NAMES", help="Matchers, separated by commas, or `all`; `rein:absent=walk` gives one a parameter."
        ),
    ] = "simple",
    events: Annotated[int, typer.Option(min=1, metavar="N", help="Events timed one at a time.")] = 200,
    batch: Annotated[int, typer.Option(min=1, metavar="N", help="Events in the batch that is timed.")] = 512,
    threads: Annotated[int, typer.Option(min=1, metavar="N", help="Threads per batch.")] = 1,
    n: Annotated[int | None, typer.Option(min=1, metavar="N", help="Subscriptions, instead of the workload's.")] = None,
    seed: Annotated[int, typer.Option(min=0, metavar="S", help="Seed of all that is drawn.")] = 1,
    repeat: Annotated[int, typer.Option(min=1, metavar="R", help="Time everything R times; medians count.")] = 1,
    check: Annotated[int, typer.Option(min=1, metavar="N", help="Events compared with brute force.")] = 10,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="A parameter of the workload (`k=8`) or of a matcher (`rein.absent=walk`).",
        ),
    ] = None,
    json: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Write the records: a JSON array; JSON lines for *.jsonl and for - (stdout)."
        ),
    ] = None,
) -> None:
    """Build matchers on a standard workload, check them against brute force, and time them.

    Matchers take turns on the same events, together with a frozen reference scan, so that every time is also a
    multiple of the reference in the same run (the columns marked x). Each matcher runs with the parameters of the
    workload's paper. The exit code is 1 if a matcher gives a wrong answer; it is then not timed.

    Examples:

      eventsieve bench --workload bop --matchers simple
      eventsieve bench --matchers rein,rein:absent=walk,rein-o --events 500
      eventsieve bench --workload gem --matchers all --n 100000 --json gem.json
      eventsieve bench --workload htree --matchers h-tree --set attribute_skew=1
      eventsieve bench --workload hem --matchers h-tree --set h-tree.cells=8
      eventsieve bench --workload eem --threads 2 --json - | jq .mean_ms
    """
    from eventsieve.bench import Plan, run, write_records
    from eventsieve.workload import standard

    of_workload, of_matcher = _split(read_settings(settings))
    if n is not None:
        of_workload["n"] = n
    chosen = standard(workload, **of_workload)
    entries = _entries(matchers, chosen, of_matcher)
    plan = Plan(chosen, entries, events, batch, threads, repeat, seed, check)
    with _progress_bar() as notify:
        records = run(plan, notify)
    _print_table(records, to_stderr=json == "-")
    if json == "-":
        for record in records:
            emit(record.as_dict())
    elif json:
        write_records(records, json)
    wrong = [record for record in records if not record.checked]
    for record in wrong:
        say(f"{record.matcher} is wrong: {record.problem}")
    if wrong:
        raise typer.Exit(PROBLEMS)


def _split(settings: dict[str, Any]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Part `k=8` from `rein.absent=walk`."""
    of_workload: dict[str, Any] = {}
    of_matcher: dict[str, dict[str, Any]] = {}
    for key, value in settings.items():
        matcher, dot, param = key.rpartition(".")
        if dot:
            of_matcher.setdefault(matcher, {})[param] = value
        else:
            of_workload[key] = value
    return of_workload, of_matcher


def _entries(written: str, workload: Workload, of_matcher: dict[str, dict[str, Any]]) -> tuple[Entry, ...]:
    """Read the list of matchers; the workload's parameters come first, then --set, then those after a colon."""
    from eventsieve.bench import Entry
    from eventsieve.matchers.registry import make_matcher
    from eventsieve.matchers.registry import matchers as names

    asked = [word.strip() for word in written.split(",") if word.strip()]
    words = [word for each in asked for word in (names() if each == "all" else (each,))]
    entries = []
    for word in words:
        name, *own = word.split(":")
        params = {**workload.matcher_params.get(name, {}), **of_matcher.get(name, {}), **read_settings(own)}
        if name != "auto":
            make_matcher(name, **params)  # a wrong name or parameter should show before minutes of building
        entries.append(Entry(name, params))
    for name in of_matcher:
        if name not in {entry.matcher for entry in entries}:
            raise typer.BadParameter(f"--set {name}....: {name!r} is not among the matchers of this run ({written})")
    if not entries:
        raise typer.BadParameter("--matchers names none; write for example --matchers simple,rein")
    return tuple(entries)


@contextmanager
def _progress_bar() -> Iterator[Notify]:
    """Show on standard error what is going on."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=1.0)
        yield lambda doing, share: bar.update(task, description=doing, completed=share)


def _print_table(records: list[Record], to_stderr: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    first = records[0]
    title = f"{first.workload}: {first.n:,} subscriptions, {first.events} events, seed {first.seed}"
    table = Table(title=title, header_style="bold", box=None, pad_edge=False, title_justify="left")
    rows = [_cells(record, records) for record in records]
    for heading in rows[0]:
        table.add_column(heading, justify="left" if heading == "matcher" else "right")
    for row in rows:
        table.add_row(*row.values())
    reference = next((record.reference_ms for record in records if record.reference_ms), None)
    if reference is not None:
        table.caption = f"x: multiple of the reference scan, which took {reference:.3f} ms per event"
        table.caption_justify = "left"
    console = Console(stderr=to_stderr, highlight=False)
    console.width = max(console.width, _TABLE_WIDTH)
    console.print(table)


def _cells(record: Record, records: list[Record]) -> dict[str, str]:
    """Return the heading and the text of every column."""

    def shown(number: float | None, digits: int) -> str:
        return "-" if number is None else f"{number:.{digits}f}"

    processor = record.processor_ms and record.processor_ms / (record.reference_processor_ms or record.processor_ms)
    return {
        "matcher": record.matcher + _difference(record, records),
        "mean ms": shown(record.mean_ms, 3),
        "x": shown(record.times_reference, 2),
        "cpu x": shown(processor, 2),
        "p50": shown(record.p50_ms, 3),
        "p95": shown(record.p95_ms, 3),
        f"ms in {record.batch}": shown(record.batch_ms_per_event, 3),
        "x in batch": shown(record.batch_times_reference, 2),
        "build s": shown(record.build_s, 2),
        "MB": shown(record.index_bytes / 1e6, 1),
        "insert us": shown(record.insert_us, 2),
        "delete us": shown(record.delete_us, 2),
        "matches": shown(record.matches_per_event, 1),
        "right": "yes" if record.checked else "NO",
    }


def _difference(record: Record, records: list[Record]) -> str:
    """Return the parameters that tell this record from others of the same matcher, as `:absent=walk`."""
    same = [other for other in records if other.matcher == record.matcher]
    differing = [key for key in record.params if any(other.params.get(key) != record.params[key] for other in same)]
    return "".join(f":{key}={record.params[key]}" for key in differing)
