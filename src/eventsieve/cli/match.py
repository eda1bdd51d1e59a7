"""`eventsieve match`: which subscriptions does each event satisfy?"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eventsieve.cli._io import PROBLEMS, emit, only_one_standard_input, open_input, read_settings, say

if TYPE_CHECKING:
    from eventsieve.cli._inputs import EventBatch
    from eventsieve.index.index import Index


def match(
    subscriptions: Annotated[
        str, typer.Argument(metavar="SUBS", help='Subscriptions, JSON lines like {"id": "a", "filter": "price > 10"}.')
    ],
    events: Annotated[
        str, typer.Argument(metavar="EVENTS", help='Events, JSON lines like {"price": 12.5, "symbol": "A"}.')
    ],
    schema: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Attributes and types as JSON; without it they are inferred from all EVENTS."
        ),
    ] = None,
    matcher: Annotated[str, typer.Option(metavar="NAME", help="One of `eventsieve matchers`, or auto.")] = "auto",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A parameter of the matcher; may be repeated."),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(metavar="FIELD", help="The field that names an event; without it, its line number does."),
    ] = None,
    pairs: Annotated[bool, typer.Option("--pairs", help="One line per match rather than one per event.")] = False,
    every: Annotated[bool, typer.Option("--all", help="Also write the events that nothing matches.")] = False,
    ignore_unknown: Annotated[
        bool, typer.Option("--ignore-unknown", help="Pass over attributes that the schema does not have.")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Match nothing if any row is bad.")] = False,
    batch: Annotated[
        int, typer.Option(min=1, metavar="N", help="Events matched at a time; 1 answers line by line.")
    ] = 1024,
    threads: Annotated[int, typer.Option(min=1, metavar="N", help="Threads per batch.")] = 1,
) -> None:
    """Match events against subscriptions and write the ids that each event satisfies.

    A row that cannot be read or understood is reported on standard error with its line, counted, and left out; the exit
    code is then 1. With --schema, events are read as a stream; without it, all of them are read first to infer the
    attributes, and what was decided is said on standard error.

    Examples:

      eventsieve match subs.jsonl events.jsonl
      eventsieve match subs.jsonl events.jsonl --key order --pairs
      eventsieve match subs.jsonl events.jsonl --schema schema.json --strict
      tail -f events.jsonl | eventsieve match subs.jsonl - --schema schema.json --batch 1
    """
    from eventsieve.cli._inputs import EventReader, SubscriptionReader, settle_schema
    from eventsieve.index.index import build

    only_one_standard_input(SUBS=subscriptions, EVENTS=events, schema=schema)
    parameters = read_settings(settings)
    with open_input(events) as source:
        reader = EventReader(events, source, key=key, unknown="ignore" if ignore_unknown else "refuse")
        written = SubscriptionReader(subscriptions)
        agreed = settle_schema(schema, reader, written)
        loaded = written.load(agreed)
        batches = reader.batches(agreed, batch)
        if strict:
            batches = iter(list(batches))  # all problems come before any result
            if left_out := loaded.report.rejected + reader.left_out:
                say(f"{left_out} rows are bad, so nothing was matched (--strict)")
                raise typer.Exit(PROBLEMS)
        if matcher == "auto":
            parameters = {"batch": batch, **parameters}
        index = build(loaded, matcher=matcher, **parameters)
        n_events, n_matched, n_matches = _match_all(index, batches, threads, pairs, every)
    say(f"{n_matches} matches; {n_matched} of {n_events} events matched at least one of {len(loaded)} subscriptions")
    if loaded.report.rejected or reader.left_out:
        say(f"left out: {loaded.report.rejected} subscriptions, {reader.left_out} events")
        raise typer.Exit(PROBLEMS)


def _match_all(
    index: Index, batches: Iterator[EventBatch], threads: int, pairs: bool, every: bool
) -> tuple[int, int, int]:
    """Write the matches of all batches; return the numbers of events, of events that matched, and of matches."""
    n_events = n_matched = n_matches = 0
    for names, events in batches:
        found = index.match_batch(events, threads=threads)
        for e, name in enumerate(names):
            ids = found.of(e)
            n_matched += bool(ids)
            n_matches += len(ids)
            for record in _records(name, ids, pairs, every):
                emit(record)
        n_events += len(names)
        sys.stdout.flush()  # whoever reads our output has each batch as soon as it is matched
    return n_events, n_matched, n_matches


def _records(name: Any, ids: list[Any], pairs: bool, every: bool) -> Iterator[dict[str, Any]]:
    if pairs:
        for found in ids:
            yield {"event": name, "subscription": found}
    elif ids or every:
        yield {"event": name, "subscriptions": ids}
