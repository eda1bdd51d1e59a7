"""`eventsieve broker`, and the metrics it serves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

import eventsieve as es
from eventsieve.broker import Broker
from eventsieve.broker.metrics import Metrics
from eventsieve.catalog import Catalog
from eventsieve.cli.app import app
from eventsieve.index.index import Index
from tests.broker.conftest import SCHEMA
from tests.broker.helpers import wait_for


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    with Catalog.create("shop", SCHEMA).edit() as edit:
        edit.add("cheap", "price < 10")
        edit.add("a", "symbol = 'A'")
    Path("in").mkdir()
    Path("in/1.jsonl").write_text('{"n": 1, "price": 5, "symbol": "A"}\n{"n": 2, "price": 50}\nbad\n')
    return tmp_path


def test_files_are_matched_once_over_restarts(shop: Path) -> None:
    words = ["broker", "--catalog", "shop", "--source", "json:in", "--sink", "json:out.jsonl", "--state", "state"]
    words += ["--key", "n", "--until-empty", "--matcher", "simple"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.stderr
    summary = json.loads(done.stdout)
    assert (summary["received"], summary["matches"], summary["dead_letters"]) == (3, 2, 1)
    Path("in/2.jsonl").write_text('{"n": 3, "price": 1}\n')
    assert CliRunner().invoke(app, words).exit_code == 0
    found = [json.loads(line) for line in Path("out.jsonl").read_text().splitlines()]
    assert [(each["event_id"], sorted(each["subscription_ids"])) for each in found] == [
        (1, ["a", "cheap"]),
        (3, ["cheap"]),
    ]
    assert len(Path("state/dead-letter.jsonl").read_text().splitlines()) == 1


def test_standard_input_to_the_console_elastic(shop: Path) -> None:
    words = ["broker", "--catalog", "shop", "--source", "json:-", "--sink", "console", "--output", "pairs"]
    words += ["--elastic", "max=1%", "--learn", "in/1.jsonl", "--metrics", "0"]
    done = CliRunner().invoke(app, words, input='{"price": 5}\n{"price": 50}\n')
    assert done.exit_code == 0, done.stderr
    assert [json.loads(line)["subscription_id"] for line in done.stdout.splitlines()] == ["cheap"]
    assert "metrics on port" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--source", "json:nowhere", "--sink", "console"], "there is nothing at nowhere"),
        (["--source", "xml:in", "--sink", "console"], "a source is one of json:"),
        (["--source", "json:in", "--sink", "printer"], "a sink is one of json:"),
        (["--source", "json:in", "--sink", "console", "--output", "rows"], "--output is arrays or pairs"),
        (["--source", "json:in", "--sink", "console", "--learn", "x"], "--learn is for skip plans"),
        (["--source", "json:in", "--sink", "console", "--elastic", "max=5"], "is no share below 100%"),
    ],
)
def test_what_cannot_be_done_is_said(shop: Path, words: list[str], said: str) -> None:
    done = CliRunner().invoke(app, ["broker", "--catalog", "shop", *words])
    assert done.exit_code == 2
    assert said in done.stderr


def test_metrics_are_read_when_asked_for(make_index: Callable[..., Index]) -> None:
    with Broker(make_index()) as broker:
        broker.attach(lambda each: None, everything=True, name="x")
        served = Metrics(broker.stats, 0)
        broker.publish_batch([{"price": 1}, {"price": 60}])
        assert broker.drain(30)
        with urllib.request.urlopen(f"http://127.0.0.1:{served.port}/metrics") as answer:
            text = answer.read().decode()
        with pytest.raises(es.BrokerError, match="cannot serve metrics on port"):
            Metrics(broker.stats, served.port)
        served.close()
    for line in (
        "eventsieve_events_total 2.0",
        "eventsieve_matches_total 3.0",
        'eventsieve_delivered_total{subscriber="x"} 2.0',
        'eventsieve_backlog{subscriber="x"} 0.0',
        'eventsieve_latency_seconds_bucket{le="+Inf"} 2.0',
        "eventsieve_false_positive_bound 0.0",
    ):
        assert line in text


@pytest.mark.deep
def test_a_running_command_follows_files_and_catalog_and_stops_when_asked(shop: Path) -> None:
    words = ["broker", "--catalog", "shop", "--source", "json:in", "--sink", "json:out.jsonl", "--state", "state"]
    with open("err", "w") as errors:
        process = subprocess.Popen([sys.executable, "-m", "eventsieve", *words], stdout=subprocess.PIPE, stderr=errors)

    def lines() -> int:
        return len(Path("out.jsonl").read_text().splitlines()) if Path("out.jsonl").exists() else 0

    wait_for(lambda: lines() == 1 or process.poll() is not None, "the first file", 120)
    Catalog.open("shop").add("dear", "price > 90")
    Path("in/2.jsonl").write_text("")

    def dear() -> bool:
        with open("in/2.jsonl", "a") as file:
            file.write('{"price": 95}\n')
        return lines() > 1

    wait_for(dear, "the change", 60)
    os.kill(process.pid, signal.SIGTERM)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0, Path("err").read_text()
    assert json.loads(out)["catalog_version"] == 2
    assert '"catalog_version":2' in Path("out.jsonl").read_text()
