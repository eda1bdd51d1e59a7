"""`eventsieve explain`: why does a subscription match an event, or why not?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eventsieve.cli._io import PROBLEMS, emit, for_people, only_one_standard_input, open_input, say

if TYPE_CHECKING:
    from eventsieve.cli._inputs import EventReader
    from eventsieve.model.ids import Id
    from eventsieve.model.schema import Schema
    from eventsieve.subscriptions import Subscriptions


def explain(
    subscriptions: Annotated[
        str, typer.Argument(metavar="SUBS", help='Subscriptions, JSON lines like {"id": "a", "filter": "price > 10"}.')
    ],
    events: Annotated[
        str | None, typer.Argument(metavar="EVENTS", help="Events, JSON lines.", show_default=False)
    ] = None,
    id: Annotated[
        list[str] | None, typer.Option("--id", metavar="ID", help="The subscription; may be repeated.")
    ] = None,
    event: Annotated[
        str | None, typer.Option("--event", metavar="JSON", help="One event, as JSON text, instead of EVENTS.")
    ] = None,
    line: Annotated[int | None, typer.Option(min=1, metavar="N", help="Only the event on this line of EVENTS.")] = None,
    schema: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Attributes and types as JSON; without it they are inferred from the events."
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="JSON lines, on a terminal too.")] = False,
) -> None:
    """Say why subscriptions match an event, or which of their predicates fail and by how much, the nearest miss first.

    Without --id, every subscription is explained. Without --schema, types are inferred from the event and from what the
    filters compare attributes with.

    Examples:

      eventsieve explain subs.jsonl --id alice --event '{"price": 25, "symbol": "A"}'
      eventsieve explain subs.jsonl events.jsonl --id alice --line 3
      eventsieve explain subs.jsonl events.jsonl --id alice | jq 'select(.matches | not)'
    """
    from eventsieve.cli._inputs import EventReader, SubscriptionReader, settle_schema

    if (events is None) == (event is None):
        raise typer.BadParameter("name a file of EVENTS, or give one event as --event '{...}'; one of the two")
    only_one_standard_input(SUBS=subscriptions, EVENTS=events, schema=schema)
    with open_input(events) if events is not None else nullcontext([str(event)]) as source:
        reader = EventReader(events or "--event", source)
        written = SubscriptionReader(subscriptions)
        agreed = settle_schema(schema, reader, written)
        loaded = written.load(agreed)
        ids = [_known(loaded, given) for given in id] if id else loaded.ids.tolist()
        found = list(_wanted(reader, agreed, line))
    if line is not None and not found:
        raise typer.BadParameter(f"line {line} of {events} holds no event that can be explained", param_hint="--line")
    for name, values in found:
        for each in ids:
            _explain_one(loaded, each, name, values, for_people(json))
    if reader.left_out:
        raise typer.Exit(PROBLEMS)


def _wanted(reader: EventReader, schema: Schema, line: int | None) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield (line, event) for the events asked for."""
    for names, events in reader.batches(schema, 1024):
        for e, name in enumerate(names):
            if line is None or name == line:
                yield name, events[e]


def _explain_one(loaded: Subscriptions, id: Id, event: Any, values: dict[str, Any], table: bool) -> None:
    from eventsieve.index.explain import explain_condition

    found = explain_condition(loaded.condition(id), loaded.schema, values)
    if table:
        say(f"{id!r} {'matches' if found.matches else 'does not match'} event {event}: {loaded.text(id)}")
        say("\n".join(str(found).splitlines()[1:]))
    else:
        emit({"event": event, "subscription": id, "filter": loaded.text(id), **found.to_dict()})


def _known(loaded: Subscriptions, given: str) -> Id:
    """Return the id as the collection has it: the shell gives texts, and ids may be integers."""
    if given in loaded:
        return given
    if given.lstrip("-").isdigit() and int(given) in loaded:
        return int(given)
    raise typer.BadParameter(f"no subscription has the id {given!r}", param_hint="--id")
