"""`eventsieve bench` and `eventsieve generate`, from the outside."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from eventsieve.cli.app import app
from eventsieve.index.index import build
from eventsieve.matchers.base import Matcher
from eventsieve.model.events import Events
from eventsieve.model.schema import Schema
from eventsieve.subscriptions import Subscriptions
from eventsieve.workload import standard

QUICK = ["--n", "300", "--events", "10", "--batch", "4", "--check", "4"]


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_bench_prints_a_table_and_writes_records(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    done = call("bench", "--workload", "bop", "--matchers", "simple", *QUICK, "--json", str(out))
    assert done.exit_code == 0, done.output
    assert "simple" in done.stdout
    assert "reference" in done.stdout
    assert json.loads(out.read_text())[0]["n"] == 300


def test_bench_can_write_json_lines_to_standard_output() -> None:
    done = call("bench", "--workload", "full", *QUICK, "--json", "-")
    assert [json.loads(line)["matcher"] for line in done.stdout.splitlines()] == ["simple"]
    assert "mean ms" in done.stderr


def test_settings_reach_the_workload() -> None:
    done = call("bench", "--workload", "bop", *QUICK, "--set", "k=3", "--set", "width=0.1..0.9", "--json", "-")
    params = json.loads(done.stdout)["workload_params"]
    assert (params["k"], params["width"]) == (3, "0.1..0.9")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "depth=3"], "no parameter 'depth'"),
        (["--set", "rein.absent=walk"], "not among the matchers"),
        (["--set", "simple.depth=3"], "takes no parameter 'depth'"),
        (["--matchers", "simpel"], "no matcher is named 'simpel'"),
        (["--matchers", ","], "names none"),
        (["--workload", "bopp"], "no workload is named 'bopp'"),
    ],
)
def test_wrong_arguments_end_with_code_2_and_the_reason(arguments: list[str], message: str) -> None:
    done = call("bench", *QUICK, *arguments)
    assert done.exit_code == 2
    assert message in " ".join(done.output.replace("│", " ").split())


def test_a_wrong_matcher_ends_with_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Matcher._match_part
    monkeypatch.setattr(
        Matcher, "_match_part", lambda self, events: (honest(self, events)[0] * 0, honest(self, events)[1][:0])
    )
    done = call("bench", "--workload", "full", *QUICK)
    assert done.exit_code == 1
    assert "simple is wrong" in done.stderr
    assert "lost" in done.stderr


@pytest.mark.parametrize("name", ["ticks", "gem"])
@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_generated_files_match_as_the_workload_does(tmp_path: Path, name: str, format: str) -> None:
    done = call("generate", name, "--n", "200", "--events", "20", "--out", str(tmp_path / "new"), "--format", format)
    assert done.exit_code == 0, done.output
    assert "match" in done.stderr
    schema = Schema.from_json(json.loads((tmp_path / "new" / "schema.json").read_text()))
    subscriptions, events = tmp_path / "new" / f"subscriptions.{format}", tmp_path / "new" / f"events.{format}"
    if format == "jsonl":
        index = build(Subscriptions.from_jsonl(schema, subscriptions, strict=True), matcher="simple")
        found = index.match_batch(Events.from_jsonl(schema, events, strict=True))
    else:
        index = build(Subscriptions.from_parquet(schema, subscriptions, strict=True), matcher="simple")
        found = index.match_batch(pq.read_table(events))
    workload = standard(name, n=200)
    expected = build(workload.subscriptions(1), matcher="simple").match_batch(workload.events(20, 1))
    assert [found.of(e) for e in range(20)] == [expected.of(e) for e in range(20)]


def test_generate_says_what_it_tuned(tmp_path: Path) -> None:
    done = call("generate", "gem", "--n", "50", "--events", "5", "--set", "match_rate=0.05", "--out", str(tmp_path))
    assert "width tuned to" in done.stderr


def test_generate_refuses_an_unknown_format(tmp_path: Path) -> None:
    done = call("generate", "bop", "--format", "csv", "--out", str(tmp_path))
    assert done.exit_code == 2
