"""Sources: what is committed when, publishers that are taken away, bad messages, files and pipes."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import eventsieve as es
from eventsieve.broker import Broker, Delivery
from eventsieve.broker.files import FileLetters, FileSink, FileSource, PipeSource
from eventsieve.broker.memory import MemorySink, MemorySource
from eventsieve.index.index import Index
from tests.broker.helpers import wait_for


def test_positions_are_committed_only_after_delivery(make_index: Callable[..., Index]) -> None:
    source = MemorySource()
    let_go, committed = threading.Event(), list[Any]()

    def slow(delivery: Delivery) -> None:
        let_go.wait()
        committed.append(dict(source.committed))

    for n in range(20):
        source.feed({"price": n}, publisher="ab"[n % 2])
    broker = Broker(make_index(), sources=[source], batch=1)
    broker.attach(slow, everything=True)
    broker.start()
    source.end()
    let_go.set()
    assert broker.wait(30)
    broker.stop()
    for done, seen in enumerate(committed):
        assert all(position < done for position in seen.values())
    assert source.committed == {"a": 9, "b": 9}


def test_what_was_not_delivered_comes_again_after_a_restart(make_index: Callable[..., Index]) -> None:
    source = MemorySource()
    for n in range(10):
        source.feed({"price": n}, publisher="p")
    first: list[Any] = []
    stuck, let_go = threading.Event(), threading.Event()

    def until_five(delivery: Delivery) -> None:
        if len(first) == 5:
            stuck.set()
            let_go.wait()
            raise RuntimeError("torn away")
        first.append(delivery.event_id)

    broker = Broker(make_index(), sources=[source])
    broker.attach(until_five, everything=True, when_full="block", limit=2)
    broker.start()
    assert stuck.wait(30)
    stopping = threading.Thread(target=broker.stop, args=(0.0,))
    stopping.start()
    let_go.set()
    stopping.join()
    second = MemorySink()
    broker = Broker(make_index(), sources=[source])
    broker.attach(second, everything=True)
    broker.start()
    source.end()
    assert broker.wait(30)
    broker.stop()
    again = [each.event_id for each in second.deliveries]
    assert first == [f"p:{n}" for n in range(5)]
    assert again == [f"p:{n}" for n in range(10)][-len(again) :]
    assert len(again) >= 5


@pytest.mark.parametrize("lost", [False, True])
def test_a_publisher_that_is_taken_away_is_never_committed_for_what_it_left_behind(
    make_index: Callable[..., Index], lost: bool
) -> None:
    source = MemorySource()
    arrived, let_go = threading.Event(), threading.Event()
    got: list[Any] = []

    def slow(delivery: Delivery) -> None:
        arrived.set()
        let_go.wait()
        got.append(delivery.event_id)

    for n in range(5):
        source.feed({"price": n}, publisher="gone")
    broker = Broker(make_index(), sources=[source], batch=1, queue=10)
    broker.attach(slow, everything=True, limit=1, when_full="block")
    broker.start()
    assert arrived.wait(30)
    [receiver] = broker._receivers
    receiver._drain_timeout = 0.0  # a rebalance does not wait for a slow subscriber
    source.take_away("gone", lost=lost)
    wait_for(lambda: not any(each.publisher == "gone" for each in source._kept), "the rebalance")
    source.feed({"price": 1}, publisher="stays")
    source.end()
    let_go.set()
    assert broker.wait(30)
    broker.stop()
    assert source.committed == {"stays": 0}
    assert got[-1] == "stays:0"
    assert got[:-1] == [f"gone:{n}" for n in range(len(got) - 1)]


def test_a_publisher_that_goes_in_peace_is_committed_as_far_as_it_is_done(make_index: Callable[..., Index]) -> None:
    source, sink = MemorySource(), MemorySink()
    broker = Broker(make_index(), sources=[source])
    broker.attach(sink, everything=True)
    broker.start()
    source.feed({"price": 1}, publisher="p")
    wait_for(lambda: broker.stats().delivered == 1, "the delivery")
    assert broker.drain(30)
    source.take_away("p")
    source.end()
    assert broker.wait(30)
    wait_for(lambda: "p" in source.committed, "the commit")
    broker.stop()
    assert source.committed == {"p": 0}


POISON = [
    (b"not json", "malformed JSON"),
    (b"\xff\xfe\x00", "not UTF-8"),
    (b"[1, 2]", "a JSON object is needed"),
    (b'{"price": "dear"}', "attribute 'price'"),
    (b'{"price": NaN}', "NaN"),
    (b'{"symbol": "' + b"x" * (5 << 20) + b'"}', "5,242,894 bytes"),
    (b'{"prise": 1}', "no attribute is named 'prise'"),
    ({"price": float("inf")}, "attribute 'price'"),
]


def test_poison_goes_to_the_dead_letters_and_the_stream_goes_on(make_index: Callable[..., Index]) -> None:
    source, sink = MemorySource(), MemorySink()
    for value, _ in POISON:
        source.feed(value, publisher="p")
        source.feed(b'{"price": 1}', publisher="p")
    broker = Broker(make_index(), sources=[source], dead_letters=sink)
    broker.attach(sink, everything=True)
    broker.start()
    source.end()
    assert broker.wait(30)
    broker.stop()
    assert [each.event_id for each in sink.deliveries] == [f"p:{2 * n + 1}" for n in range(len(POISON))]
    assert sorted(letter.message.position for letter in sink.letters) == [2 * n for n in range(len(POISON))]
    for letter in sink.letters:
        assert POISON[letter.message.position // 2][1] in letter.reason
    assert source.committed == {"p": 2 * len(POISON) - 1}
    assert broker.stats().dead_letters == len(POISON)


def test_a_bad_publication_is_told_to_its_publisher(make_index: Callable[..., Index]) -> None:
    with Broker(make_index()) as broker:
        with pytest.raises(es.DataError, match="attribute 'price'"):
            broker.publish({"price": "dear"})
        with pytest.raises(es.DataError, match="malformed JSON"):
            broker.publish("{")
        with pytest.raises(es.DataError, match="not acceptable"):
            broker.publish_batch([{"price": 1}, {"price": "dear"}])
        with pytest.raises(es.DataError, match="2 ids were given for 1 events"):
            broker.publish_batch([{"price": 1}], ids=[1, 2])
        with pytest.raises(es.BrokerError, match="10001 events do not fit"):
            broker.publish_batch([{"price": 1}] * 10_001)
        assert broker.stats().received == 0


def test_the_key_field_names_events(make_index: Callable[..., Index]) -> None:
    source, sink = MemorySource(), MemorySink()
    for value in ({"price": 1, "order": "A-1"}, {"price": 1, "order": 7}, {"price": 1}, {"price": 1, "order": 1.5}):
        source.feed(json.dumps(value))
    broker = Broker(make_index(), sources=[source], key="order", dead_letters=sink)
    broker.attach(sink, everything=True)
    broker.start()
    source.end()
    assert broker.wait(30)
    broker.stop()
    assert [each.event_id for each in sink.deliveries] == ["A-1", 7]
    assert [letter.reason for letter in sink.letters] == [
        "no value for the key field 'order'",
        "the key field 'order' is a text or a whole number, not 1.5",
    ]


def test_a_broker_that_is_not_running_says_so(make_index: Callable[..., Index]) -> None:
    broker = Broker(make_index())
    with pytest.raises(es.BrokerError, match="not running"):
        broker.publish({"price": 1})
    with broker:
        pass
    with pytest.raises(es.BrokerError, match="not running"):
        broker.publish({"price": 1})


# -- files -------------------------------------------------------------------------------------------------


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_files_in_files_out_and_a_restart_goes_on_in_the_middle(
    make_index: Callable[..., Index], tmp_path: Path
) -> None:
    incoming, matches, positions = tmp_path / "in", tmp_path / "out.jsonl", tmp_path / "positions.json"
    incoming.mkdir()
    (incoming / "a.jsonl").write_text('{"price": 10}\n\nnonsense\n{"price": 60}')
    (incoming / ".hidden").write_text("{")

    def run() -> None:
        letters = FileLetters(tmp_path / "dead" / "letters.jsonl")
        broker = Broker(make_index(), sources=[FileSource(str(incoming), positions=positions)], dead_letters=letters)
        broker.attach(FileSink(str(matches), "pairs"), everything=True)
        with broker:
            assert broker.wait(30)

    run()
    found = [(each["event_id"], each["subscription_id"], each["match_mode"]) for each in lines_of(matches)]
    assert sorted(found) == [
        ("a.jsonl:14", "all", "exact"),
        ("a.jsonl:14", "low", "exact"),
        ("a.jsonl:37", "all", "exact"),
    ]
    [letter] = lines_of(tmp_path / "dead" / "letters.jsonl")
    assert letter == {
        "reason": "malformed JSON at column 1: Expecting value",
        "publisher": "a.jsonl",
        "position": 24,
        "event": "nonsense",
    }
    with open(incoming / "a.jsonl", "a") as file:
        file.write('\n{"price": 61}\n')
    (incoming / "b.jsonl").write_text('{"price": 62}\n')
    run()
    assert [each["event_id"] for each in lines_of(matches)][3:] == ["a.jsonl:52", "b.jsonl:14"]


def test_a_followed_folder_waits_for_the_end_of_a_line(tmp_path: Path) -> None:
    source = FileSource(str(tmp_path), follow=True)
    source.open(None)  # type: ignore[arg-type]  # its publishers are always its own
    assert source.poll(10, 0.0) == []
    (tmp_path / "a").write_text('{"price": 1}\n{"pri')
    assert [message.value for message in source.poll(10, 0.0)] == [b'{"price": 1}']
    with open(tmp_path / "a", "a") as file:
        file.write('ce": 2}\n')
    assert [message.value for message in source.poll(10, 0.0)] == [b'{"price": 2}']
    assert source.poll(0, 0.0) == []
    assert not source.finished


def test_missing_files_and_damaged_positions_are_said(tmp_path: Path) -> None:
    with pytest.raises(es.BrokerError, match="there is nothing at"):
        FileSource(str(tmp_path / "nowhere")).open(None)  # type: ignore[arg-type]  # it fails before
    (tmp_path / "positions").write_text("?")
    source = FileSource(str(tmp_path), positions=tmp_path / "positions")
    with pytest.raises(es.BrokerError, match="does not say how far"):
        source.open(None)  # type: ignore[arg-type]  # it fails before


def test_a_pipe_gives_lines_as_they_come() -> None:
    source = PipeSource(io.BytesIO(b'{"price": 1}\n\n{"price": 2}'))
    assert not source.finished
    assert [(message.value, message.position) for message in source.poll(1, 0.0)] == [(b'{"price": 1}', 1)]
    assert [(message.value, message.position) for message in source.poll(9, 0.0)] == [(b'{"price": 2}', 3)]
    assert source.finished


def test_a_line_that_a_crash_cut_off_stands_alone(tmp_path: Path, make_index: Callable[..., Index]) -> None:
    (tmp_path / "out").write_text('{"event_id": 1, "sub')
    with Broker(make_index(filters={"all": "price >= 0"})) as broker:
        broker.attach(FileSink(str(tmp_path / "out"), with_event=True), everything=True)
        broker.publish({"price": 1}, id="x")
    assert (tmp_path / "out").read_text().splitlines()[1] == (
        '{"event_id":"x","subscription_ids":["all"],"match_mode":"exact","catalog_version":0,"event":{"price":1}}'
    )
