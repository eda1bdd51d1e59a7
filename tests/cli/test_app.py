"""All commands: help by example, a page each, a quick start, clean endings."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from eventsieve.cli._io import read_settings
from eventsieve.cli.app import COMMANDS, GROUPS, app
from tests.cli.conftest import Run

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("numba", "pyarrow", "sqlglot", "pyspark")


def test_the_list_of_commands_is_what_is_registered() -> None:
    assert [command.name for command in app.registered_commands] == list(COMMANDS)
    assert [group.name for group in app.registered_groups] == list(GROUPS)


@pytest.mark.parametrize("command", COMMANDS + GROUPS)
def test_every_command_has_a_page_with_its_usage(command: str) -> None:
    page = ROOT / "docs" / "commands" / f"{command}.md"
    assert page.exists(), f"write {page.relative_to(ROOT)}"
    assert f"eventsieve {command}" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("command", COMMANDS + GROUPS)
def test_help_teaches_by_example(command: str, run: Run) -> None:
    shown = run(command, "--help")
    assert shown.code == 0
    _, examples, rest = shown.stdout.partition("Examples:")
    assert examples, f"give {command} an Examples: section in its docstring"
    assert f"eventsieve {command}" in rest
    assert "\\b" not in shown.stdout


def test_help_without_a_command_lists_all_of_them(run: Run) -> None:
    shown = run("--help").stdout
    assert "Examples:" in shown
    assert all(command in shown for command in COMMANDS)


def test_version(run: Run) -> None:
    assert run("--version").stdout.startswith("eventsieve ")


def test_command_modules_import_nothing_heavy_by_themselves() -> None:
    program = (
        "import sys, types; package = types.ModuleType('eventsieve'); package.__path__ = [sys.argv[1]];"
        "sys.modules['eventsieve'] = package;"  # only what the commands import, not what the library's front door does
        f"import eventsieve.cli.app; print(*(set({HEAVY!r}) & set(sys.modules)))"
    )
    source = str(ROOT / "src" / "eventsieve")
    ran = subprocess.run([sys.executable, "-c", program, source], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == []


def test_a_reader_that_goes_away_is_no_error(folder: Path) -> None:
    (folder / "many.jsonl").write_text('{"price": 12}\n' * 20_000)
    match = [sys.executable, "-m", "eventsieve", "match", "subs.jsonl", "many.jsonl"]
    with subprocess.Popen(match, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        messages = process.stderr.read()
    assert process.returncode == 141
    assert "Traceback" not in messages
    assert "Error" not in messages


def test_an_interrupt_ends_quietly(folder: Path) -> None:
    match = [sys.executable, "-m", "eventsieve", "match", "subs.jsonl", "-", "--schema", "schema.json", "--batch", "1"]
    with subprocess.Popen(
        match, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write('{"price": 12}\n')
        process.stdin.flush()
        assert "alice" in process.stdout.readline()  # it is in its loop now, waiting for the next line
        os.kill(process.pid, signal.SIGINT)
        messages = process.stderr.read()
    assert process.returncode == 130
    assert "Traceback" not in messages


def test_unknown_command_and_option_are_usage_errors(run: Run) -> None:
    assert run("mach").code == 2
    assert run("match", "subs.jsonl", "events.jsonl", "--nope").code == 2


def test_settings_are_json_where_they_can_be() -> None:
    assert read_settings(["a=1", "b=0.5", "c=true", "d=walk", "e=null", "f=x=y"]) == {
        "a": 1,
        "b": 0.5,
        "c": True,
        "d": "walk",
        "e": None,
        "f": "x=y",
    }
