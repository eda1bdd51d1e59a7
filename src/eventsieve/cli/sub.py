"""`eventsieve sub`: the subscriptions of a catalog, from the command line."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eventsieve.cli._io import PROBLEMS, emit, open_input, read_schema, say, say_problems

if TYPE_CHECKING:
    from eventsieve.catalog import Catalog

_HELP = """Keep subscriptions in a catalog: a folder in which every change is a version.

Examples:

  eventsieve sub create shop --schema schema.json
  eventsieve sub add shop alice "price < 10 AND symbol = 'A'" --owner alice --label team=risk
  eventsieve sub import shop subscriptions.jsonl
  eventsieve sub list shop --owner alice
  eventsieve sub history shop
  eventsieve sub follow kafka:localhost:9092/subscriptions --catalog shop
"""

sub = typer.Typer(
    help=_HELP, no_args_is_help=True, rich_markup_mode="rich", context_settings={"help_option_names": ["-h", "--help"]}
)

CatalogPath = Annotated[str, typer.Argument(metavar="CATALOG", help="The catalog's folder.")]
Ids = Annotated[
    list[str], typer.Argument(metavar="ID...", help="Ids; whole numbers are integers unless --text is given.")
]
OneId = Annotated[
    str, typer.Argument(metavar="ID", help="The id; a whole number is an integer unless --text is given.")
]
AsText = Annotated[bool, typer.Option("--text", help="Take ids as texts even if they look like numbers.")]
Author = Annotated[
    str | None, typer.Option(metavar="NAME", help="Who makes the change; without it, the name of your login.")
]
Version = Annotated[int | None, typer.Option(metavar="N", help="Another version than the newest.")]
Labels = Annotated[list[str] | None, typer.Option("--label", metavar="NAME=VALUE", help="A label; may be repeated.")]


@sub.command()
def create(
    catalog: CatalogPath,
    schema: Annotated[str, typer.Option(metavar="FILE", help='Attributes and types as JSON, {"price": "float", ...}.')],
    author: Author = None,
) -> None:
    """Make an empty catalog in a new or empty folder.

    Examples:

      echo '{"price": "float", "symbol": "text"}' > schema.json
      eventsieve sub create shop --schema schema.json
    """
    from eventsieve.catalog import Catalog

    made = Catalog.create(catalog, read_schema(schema), author=_author(author))
    emit({"catalog": catalog, "version": 0, "attributes": len(made.schema)})


@sub.command()
def add(
    catalog: CatalogPath,
    id: OneId,
    filter: Annotated[str, typer.Argument(metavar="FILTER", help='The condition, such as "price BETWEEN 10 AND 20".')],
    owner: Annotated[str | None, typer.Option(metavar="NAME", help="Whose subscription it is.")] = None,
    labels: Labels = None,
    replace: Annotated[bool, typer.Option("--replace", help="Give an id that is there another filter.")] = False,
    text: AsText = False,
    author: Author = None,
) -> None:
    """Add one subscription, or replace its filter.

    Examples:

      eventsieve sub add shop alice "price BETWEEN 10 AND 20" --owner alice --label team=risk
      eventsieve sub add shop alice "price < 10" --replace
      eventsieve sub add shop 7 "symbol IN ('A', 'B')"
    """
    opened = _open(catalog)
    change = opened.replace if replace else opened.add
    version = change(_id(id, text), filter, owner=owner, labels=_labels(labels), author=_author(author))
    emit({"version": version})


@sub.command()
def rm(catalog: CatalogPath, ids: Ids, text: AsText = False, author: Author = None) -> None:
    """Remove subscriptions, all of them or, if one is not there, none. Older versions still have them.

    Examples:

      eventsieve sub rm shop alice
      eventsieve sub rm shop 7 8 9
    """
    _edit_each(catalog, "remove", ids, text, author)


@sub.command()
def pause(catalog: CatalogPath, ids: Ids, text: AsText = False, author: Author = None) -> None:
    """Stop matching subscriptions without removing them.

    Example:

      eventsieve sub pause shop alice
    """
    _edit_each(catalog, "pause", ids, text, author)


@sub.command()
def resume(catalog: CatalogPath, ids: Ids, text: AsText = False, author: Author = None) -> None:
    """Match paused subscriptions again.

    Example:

      eventsieve sub resume shop alice
    """
    _edit_each(catalog, "resume", ids, text, author)


@sub.command("list")
def list_(
    catalog: CatalogPath,
    owner: Annotated[str | None, typer.Option(metavar="NAME", help="Only this owner's.")] = None,
    labels: Labels = None,
    version: Version = None,
) -> None:
    """Write the subscriptions as JSON lines, paused ones too.

    Examples:

      eventsieve sub list shop --owner alice --label team=risk
      eventsieve sub list shop --version 3 | head
    """
    from eventsieve.catalog.transfer import records

    for record in records(_open(catalog).rows(version, owner=owner, labels=_labels(labels))):
        emit(record)


@sub.command("import")
def import_(
    catalog: CatalogPath,
    source: Annotated[
        str, typer.Argument(metavar="FILE", help="JSON lines, - for standard input, or a .parquet file.")
    ],
    strict: Annotated[bool, typer.Option("--strict", help="Import nothing if any row is bad.")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Replace the filters of ids that are there.")] = False,
    author: Author = None,
) -> None:
    """Add many subscriptions as one version.

    Rows have an id and a filter and may have an owner, labels and paused. Bad rows are reported by line and left out;
    the exit code is then 1.

    Examples:

      eventsieve sub import shop subscriptions.jsonl
      eventsieve sub import shop subscriptions.parquet --strict
      generate-some | eventsieve sub import shop - --replace
    """
    import warnings

    from eventsieve.catalog.transfer import RowsRefusedError
    from eventsieve.model.report import LoadWarning

    opened = _open(catalog)
    how: dict[str, Any] = {"strict": strict, "replace": replace, "author": _author(author)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LoadWarning)  # said by line below
        try:
            if source.endswith(".parquet"):
                report = opened.import_parquet(source, **how)
            else:
                with open_input(source) as lines:
                    report = opened.import_jsonl(lines, **how)
        except RowsRefusedError as error:
            say(str(error))
            raise typer.Exit(PROBLEMS) from error
    emit({"version": opened.version, "imported": report.added, "left_out": report.rejected})
    if say_problems(source, report.problems):
        raise typer.Exit(PROBLEMS)


@sub.command()
def export(
    catalog: CatalogPath,
    target: Annotated[
        str, typer.Argument(metavar="FILE", help="JSON lines, - for standard output, or a .parquet file.")
    ] = "-",
    version: Version = None,
) -> None:
    """Write all subscriptions, paused ones too, in a form that `import` reads.

    Examples:

      eventsieve sub export shop backup.jsonl
      eventsieve sub export shop backup.parquet --version 12
    """
    opened = _open(catalog)
    if target.endswith(".parquet"):
        opened.export_parquet(target, version)
    else:
        opened.export_jsonl(sys.stdout if target == "-" else target, version)


@sub.command()
def history(
    catalog: CatalogPath,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="At most so many versions.")] = 20,
) -> None:
    """Write the versions as JSON lines, newest first: time, author and how many changes of each kind.

    Example:

      eventsieve sub history shop --limit 5
    """
    for entry in _open(catalog).history(limit):
        emit({"version": entry.version, "time": entry.time.isoformat(), "author": entry.author, **entry.operations})


@sub.command()
def follow(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="kafka:BROKERS/TOPIC with changes by id.")],
    catalog: Annotated[str, typer.Option(metavar="CATALOG", help="The catalog's folder.")],
    every: Annotated[float, typer.Option(metavar="SECONDS", help="Changes of so long are one version.")] = 1.0,
    most: Annotated[int, typer.Option(metavar="N", min=1, help="Changes in a version, at most.")] = 10_000,
    until_empty: Annotated[bool, typer.Option("--until-empty", help="Take what is there, then end.")] = False,
    dead_letter: Annotated[
        str | None, typer.Option(metavar="PLACE", help="kafka:BROKERS/TOPIC for bad changes. Else: TOPIC-dead-letter.")
    ] = None,
    kafka: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A setting of Kafka's client, or @FILE with many.")
    ] = None,
    text: AsText = False,
) -> None:
    """Let a Kafka topic feed a catalog: the key is the id, the value the subscription as JSON, no value removes it.

    How far the topic was read is committed with the changes, so that after a kill the same command goes on exactly
    where it was. A change that cannot be taken goes to the dead-letter topic with the reason, and the id stays as it
    is. Ctrl-C and SIGTERM commit what was read, and end.

    Examples:

      eventsieve sub follow kafka:localhost:9092/subscriptions --catalog shop
      eventsieve sub follow kafka:localhost:9092/subscriptions --catalog shop --until-empty --every 5
    """
    from eventsieve.broker.kafka.follower import Followed, Follower
    from eventsieve.cli._stopping import stopping
    from eventsieve.kafka import KafkaPlace, read_settings

    sums = {"version": -1, "written": 0, "removed": 0, "refused": 0}

    def done(group: Followed) -> None:
        sums["version"] = group.version
        for name in ("written", "removed", "refused"):
            sums[name] += getattr(group, name)
        say(f"version {group.version}: {group.written:,} written, {group.removed:,} removed, {group.refused:,} refused")

    opened = _open(catalog)
    letters = KafkaPlace.parse(dead_letter) if dead_letter else None
    settings = read_settings(kafka or [])
    follower = Follower(opened, KafkaPlace.parse(source), settings, lambda id: _id(id, text), letters)
    with stopping(follower.stop, "finishing the batch"):
        follower.run(every, most, until_empty, done)
    emit({**sums, "version": opened.version})


def _open(path: str) -> Catalog:
    from eventsieve.catalog import Catalog

    return Catalog.open(path)


def _edit_each(catalog: str, operation: str, ids: list[str], as_text: bool, author: str | None) -> None:
    with _open(catalog).edit(author=_author(author)) as edit:
        for id in ids:
            getattr(edit, operation)(_id(id, as_text))
    emit({"version": edit.version})


def _id(text: str, as_text: bool) -> int | str:
    """Read an id as it would stand in JSON without quotes: `7` is the integer.

    >>> _id("7", as_text=False), _id("7", as_text=True), _id("alice", as_text=False), _id("007", as_text=False)
    (7, '7', 'alice', '007')
    """
    digits = text.removeprefix("-")
    if as_text or not (digits.isascii() and digits.isdigit()) or (digits.startswith("0") and text != "0"):
        return text
    return int(text)


def _labels(pairs: list[str] | None) -> dict[str, str] | None:
    if not pairs:
        return None
    labels = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{pair!r} is not a label; write name=value, for example team=risk")
        labels[name] = value
    return labels


def _author(given: str | None) -> str | None:
    if given is not None:
        return given
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no login name, as in some containers
        return None
