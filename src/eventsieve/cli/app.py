"""The `eventsieve` command: the list of its commands, and how each of them ends.

A command is a module of this package with a function of the same name. Command modules import nothing heavy at their
top, because all of them are imported for `eventsieve --help`: what a command needs is imported when it runs.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from functools import wraps
from importlib import import_module, metadata
from typing import Annotated, Any, Final

import typer

from eventsieve.cli._io import UNREADABLE, say
from eventsieve.errors import EventsieveError

COMMANDS: Final = (
    "match", "explain", "check", "generate", "bench", "matchers", "plan", "profile", "run", "broker", "demo",
)  # fmt: skip
GROUPS: Final = ("sub",)
"""Commands that have commands of their own; their module has a `typer.Typer` of the same name."""

_INTERRUPTED: Final = 130
_BROKEN_PIPE: Final = 141
"""128 + the signal's number, as a shell reports it: neither is a problem with the input."""

app = typer.Typer(
    name="eventsieve",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"eventsieve {metadata.version('eventsieve')}\n")
        raise typer.Exit


def _eventsieve(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Match events against standing subscriptions: content-based publish/subscribe.

    Results are JSON lines on standard output; all messages go to standard error. A file named - is standard input.
    Exit codes: 0 done, 1 problems found in the input (or rows left out), 2 wrong usage or unreadable input.

    Examples:

      eventsieve demo
      eventsieve match subscriptions.jsonl events.jsonl
      eventsieve explain subscriptions.jsonl --id alice --event '{"price": 25}'
      eventsieve check subscriptions.jsonl
    """


def _ends_well(command: Callable[..., None]) -> Callable[..., None]:
    """Turn what can go wrong outside our code into one line on standard error and an exit code."""

    @wraps(command)
    def run(*args: Any, **options: Any) -> None:
        try:
            command(*args, **options)
            sys.stdout.flush()
        except EventsieveError as error:
            say(f"error: {error}")
            raise typer.Exit(UNREADABLE) from error
        except BrokenPipeError as error:
            # The reader has gone (`| head`). Python flushes once more at exit: that must not fail either.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(_BROKEN_PIPE) from error
        except OSError as error:
            say(f"error: cannot read {error.filename}: {error.strerror}" if error.filename else f"error: {error}")
            raise typer.Exit(UNREADABLE) from error
        except KeyboardInterrupt as interrupt:
            say("stopped")
            raise typer.Exit(_INTERRUPTED) from interrupt

    return run


def _flowing(docstring: str | None) -> str:
    """Return a docstring as help: prose flows to the width of the terminal, indented lines (examples) stay."""
    paragraphs = inspect.cleandoc(docstring or "").split("\n\n")
    return "\n\n".join(each if each.startswith(" ") else each.replace("\n", " ") for each in paragraphs)


def _register() -> None:
    app.callback(help=_flowing(_eventsieve.__doc__))(_eventsieve)
    for name in COMMANDS:
        command = getattr(import_module(f"eventsieve.cli.{name}"), name)
        app.command(name, help=_flowing(command.__doc__))(_ends_well(command))
    for name in GROUPS:
        group: typer.Typer = getattr(import_module(f"eventsieve.cli.{name}"), name)
        for member in group.registered_commands:
            assert member.callback is not None
            member.help = _flowing(member.callback.__doc__)
            member.callback = _ends_well(member.callback)
        app.add_typer(group, name=name)


_register()


def main() -> None:
    """Run the command line and end the process."""
    app()
