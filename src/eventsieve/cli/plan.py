"""`eventsieve plan`: which matcher would `auto` choose for these subscriptions, and why?"""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from eventsieve.cli._io import emit, for_people, only_one_standard_input, open_input, say, say_decisions

if TYPE_CHECKING:
    from eventsieve.cli._inputs import SubscriptionReader
    from eventsieve.model.events import Events
    from eventsieve.model.schema import Schema
    from eventsieve.planner import Plan
    from eventsieve.subscriptions import Subscriptions

_SAMPLED: Final = 1024
"""Events of the sample that are read."""


def plan(
    subscriptions: Annotated[
        str, typer.Argument(metavar="SUBS", help="Subscriptions, JSON lines; or the folder of a catalog.")
    ],
    events: Annotated[
        str | None, typer.Option(metavar="FILE", help="A sample of the events to come, JSON lines.")
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Attributes and types as JSON; without it they are inferred from events and filters."
        ),
    ] = None,
    memory: Annotated[
        str | None, typer.Option(metavar="SIZE", help="What the index may take, as 2GB; else half of what is free.")
    ] = None,
    batch: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Events matched at a time; without it, both are served.")
    ] = None,
    false_positive: Annotated[
        float, typer.Option(metavar="F", help="Choose an elastic matcher, for this share of false matches.")
    ] = 0.0,
    time: Annotated[
        bool, typer.Option("--time", help="Build the two best on all subscriptions and time them as well.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="JSON, on a terminal too.")] = False,
) -> None:
    """Say which matcher `auto` chooses, what each candidate is expected to cost, and why the others were left.

    Matchers that stored unit costs put near the best are tried on a sample of the subscriptions. Without --events,
    events are drawn from the domains of the attributes.

    Examples:

      eventsieve plan subs.jsonl
      eventsieve plan subs.jsonl --events events.jsonl --memory 2GB --batch 512
      eventsieve plan subs.jsonl --time --json
    """
    from eventsieve.index.automatic import plan_for

    only_one_standard_input(SUBS=subscriptions, events=events, schema=schema)
    held, sample = _read(subscriptions, events, schema)
    wishes = {"memory": memory, "batch": batch, "events": sample, "false_positive": false_positive}
    found = plan_for(held, wishes)
    timed = _timed(held, sample, found, false_positive) if time else []
    if for_people(json):
        say(str(found))
        for each in timed:
            say(f"{each['matcher']}, built: {each['single_ms']:.4f} ms per event, {each['batch_ms']:.4f} in batches")
    else:
        emit(found.to_dict() | ({"timed": timed} if time else {}))


def _read(path: str, events: str | None, schema: str | None) -> tuple[Subscriptions, Events | None]:
    """Read subscriptions and, where there are any, events; problems are said as `eventsieve match` says them."""
    from eventsieve.cli._inputs import EventReader, SubscriptionReader, settle_schema

    catalog = _catalog(path)
    with open_input(events) if events is not None else nullcontext(()) as source:
        reader = EventReader(events or path, source, unknown="ignore")
        if catalog is not None:
            held = catalog
        else:
            written = SubscriptionReader(path)
            agreed = settle_schema(schema, reader, written) if schema or events else _guessed(path, written)
            held = written.load(agreed)
        batch = next(reader.batches(held.schema, _SAMPLED), None)
    return held, None if batch is None else batch.events


def _catalog(path: str) -> Subscriptions | None:
    if not (Path(path) / "_delta_log").is_dir():
        return None
    from eventsieve.catalog import Catalog

    return Catalog.open(path).subscriptions()


def _guessed(path: str, written: SubscriptionReader) -> Schema:
    from eventsieve.cli._guess import guess_schema

    schema = guess_schema(written.filters())
    say_decisions(path, schema.decisions)
    return schema


def _timed(held: Subscriptions, sample: Events | None, found: Plan, false_positive: float) -> list[dict[str, Any]]:
    """Build the two best on everything, and time them."""
    from eventsieve.planner.drawn_events import draw_events
    from eventsieve.planner.trial import BATCH, Bench

    clauses, domains = held.table(), held.domains()
    slots = (clauses.stop > clauses.start).nonzero()[0]
    kept = clauses._replace(start=clauses.start[slots], stop=clauses.stop[slots])
    events = draw_events(kept, domains, BATCH) if sample is None else sample.columns_for(held.codes)
    bench = Bench(kept, slots.size, domains, events, false_positive)
    best = found.candidates[:2]
    costs = bench.costs([(each.matcher, each.params) for each in best])
    return [
        {"matcher": each.label, "single_ms": cost.single_ms, "batch_ms": cost.batch_ms}
        for each, cost in zip(best, costs, strict=True)
    ]
