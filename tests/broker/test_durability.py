"""Stop, crash and restart: what was acknowledged is delivered, and what comes twice can be told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import eventsieve as es
from eventsieve.broker import Broker, Delivery, NextHop
from eventsieve.broker.memory import MemorySink
from eventsieve.broker.segments import LogReader, SegmentLog
from eventsieve.index.index import Index
from tests.broker.helpers import wait_for


def test_what_was_acknowledged_and_not_delivered_comes_after_a_restart(
    make_index: Callable[..., Index], tmp_path: Path
) -> None:
    first: list[Any] = []
    stuck, let_go = threading.Event(), threading.Event()

    def until_three(delivery: Delivery) -> None:
        if len(first) == 3:
            stuck.set()
            let_go.wait()
            raise RuntimeError("torn away")
        first.append(delivery.event_id)

    broker = Broker(make_index(), state=tmp_path, queue=100, batch=2)
    broker.attach(until_three, everything=True, limit=2, when_full="block", name="x")
    broker.start()
    for n in range(20):
        broker.publish({"price": n, "symbol": "é"}, publisher="p")
    assert stuck.wait(30)
    stopping = threading.Thread(target=broker.stop, args=(0.0,))
    stopping.start()
    let_go.set()
    stopping.join()
    second = MemorySink()
    broker = Broker(make_index(), state=tmp_path)
    broker.attach(second, everything=True, name="x")
    with broker:
        assert broker.publish({"price": 1}, publisher="p") == "p:20"
    again = [each.event_id for each in second.deliveries]
    assert first == ["p:0", "p:1", "p:2"]
    assert set(first) | set(again) == {f"p:{n}" for n in range(21)}
    assert again == [f"p:{n}" for n in range(21 - len(again), 21)]
    # Nothing is left, so a third start has nothing to say.
    third = MemorySink()
    broker = Broker(make_index(), state=tmp_path)
    broker.attach(third, everything=True, name="x")
    with broker:
        pass
    assert third.deliveries == []


def test_a_backlog_on_disk_waits_for_its_subscriber(make_index: Callable[..., Index], tmp_path: Path) -> None:
    let_go = threading.Event()

    def never(delivery: Delivery) -> None:
        let_go.wait()
        raise RuntimeError("torn away")

    quick = MemorySink()
    broker = Broker(make_index(), state=tmp_path, fsync=False)
    broker.attach(never, everything=True, limit=5, name="a/b")
    broker.attach(quick, everything=True, name="quick")
    broker.start()
    for n in range(50):
        broker.publish({"price": 1}, id=n)
    wait_for(lambda: len(quick.deliveries) == 50, "the quick one")
    stopping = threading.Thread(target=broker.stop, args=(0.0,))
    stopping.start()
    let_go.set()
    stopping.join()
    late, again = MemorySink(), MemorySink()
    broker = Broker(make_index(), state=tmp_path, fsync=False)
    broker.attach(late, everything=True, name="a/b")
    broker.attach(again, everything=True, name="quick")
    with broker:
        pass
    assert [each.event_id for each in late.deliveries] == list(range(50))
    assert again.deliveries == []  # the one that was quick sees nothing twice because of the other
    assert not (tmp_path / "subscribers" / "a%2Fb").exists()


def test_a_folder_serves_one_broker_at_a_time(make_index: Callable[..., Index], tmp_path: Path) -> None:
    with Broker(make_index(), state=tmp_path), pytest.raises(es.BrokerError, match="in use by another broker"):
        Broker(make_index(), state=tmp_path)
    Broker(make_index(), state=tmp_path).stop()


def test_a_chain_of_durable_brokers_loses_nothing_when_the_second_restarts(
    make_index: Callable[..., Index], tmp_path: Path
) -> None:
    second = Broker(make_index(), state=tmp_path / "second", fsync=False)
    got = MemorySink()
    let_go = threading.Event()

    def stuck(delivery: Delivery) -> None:
        let_go.wait()
        raise RuntimeError("torn away")

    second.attach(stuck, everything=True, name="end")
    first = Broker(make_index(), state=tmp_path / "first", fsync=False)
    first.attach(NextHop(second), everything=True)
    second.start()
    with first:
        for n in range(30):
            first.publish({"price": 1}, id=n)
    stopping = threading.Thread(target=second.stop, args=(0.0,))
    stopping.start()
    let_go.set()
    stopping.join()
    second = Broker(make_index(), state=tmp_path / "second", fsync=False)
    second.attach(got, everything=True, name="end")
    with second:
        pass
    assert [each.event_id for each in got.deliveries] == list(range(30))


# -- the log -----------------------------------------------------------------------------------------------


@given(
    appends=st.lists(st.lists(st.binary(max_size=40), max_size=4), max_size=20),
    drop=st.integers(0, 40),
    read=st.integers(1, 7),
)
def test_a_log_gives_back_what_was_appended_from_any_place(
    tmp_path_factory: pytest.TempPathFactory, appends: list[list[bytes]], drop: int, read: int
) -> None:
    folder = tmp_path_factory.mktemp("log")
    log = SegmentLog(folder, segment_bytes=64)
    everything = [record for records in appends for record in records]
    for records in appends:
        log.append(records)
    log.drop_before(min(drop, log.next))
    log.close()
    log = SegmentLog(folder, segment_bytes=64)
    assert log.next == len(everything)
    assert log.first <= min(drop, len(everything))
    reader = LogReader(log, drop)
    found: list[bytes] = []
    while part := reader.read(read):
        found += part
    assert found == everything[drop:]
    log.close()


@pytest.mark.parametrize("cut", [1, 5, 9, 12])
def test_a_tail_that_a_crash_cut_off_is_taken_away(tmp_path: Path, cut: int) -> None:
    log = SegmentLog(tmp_path)
    log.append([b"whole", b"torn"])
    log.close()
    [path] = tmp_path.glob("*.log")
    os.truncate(path, path.stat().st_size - cut)
    log = SegmentLog(tmp_path)
    assert log.next == 1
    log.append([b"after"])
    assert LogReader(log, 0).read(10) == [b"whole", b"after"]
    log.close()


def test_damage_in_the_middle_is_said(tmp_path: Path) -> None:
    log = SegmentLog(tmp_path)
    log.append([b"one", b"two", b"three"])
    [path] = tmp_path.glob("*.log")
    data = bytearray(path.read_bytes())
    data[8] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(es.BrokerError, match="damaged at record 0"):
        LogReader(log, 0).read(10)
    log.close()


# -- a real kill -------------------------------------------------------------------------------------------

PROGRAM = """
import sys
import eventsieve as es
from eventsieve.broker import Broker
from eventsieve.broker.files import FileSink

folder, first, stop = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
subs = es.Subscriptions(es.Schema({"price": es.Float(0, 100)}))
subs.add("all", "price >= 0")
broker = Broker(es.build(subs, matcher="simple"), state=folder + "/state", workers=2, queue=64, batch=8)
broker.attach(FileSink(folder + "/out.jsonl"), everything=True, name="file", limit=16)
broker.start()
with open(folder + "/acknowledged", "a", buffering=1) as acknowledged:
    for n in range(first, stop):
        broker.publish({"price": n % 100}, publisher="p", id=n)
        acknowledged.write(f"{n}\\n")
broker.stop()
"""


@pytest.mark.deep
def test_after_kill_9_nothing_that_was_acknowledged_is_lost_and_order_is_kept(tmp_path: Path) -> None:
    acknowledged = tmp_path / "acknowledged"
    acknowledged.touch()

    def count() -> int:
        return len(acknowledged.read_text().splitlines())

    for _ in range(4):
        begun = count()
        command = [sys.executable, "-c", PROGRAM, str(tmp_path), str(begun), "1000000"]
        process = subprocess.Popen(command, stderr=subprocess.PIPE)
        # Called before the loop goes on, so it sees the variables of this round.
        wait_for(lambda: count() >= begun + 200 or process.poll() is not None, "publications", 120)  # noqa: B023
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        if process.stderr:
            process.stderr.close()
    begun = count()
    subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path), str(begun), str(begun)], check=True)
    promised = {int(line) for line in acknowledged.read_text().splitlines() if line}
    delivered: list[int] = []
    for line in (tmp_path / "out.jsonl").read_text().splitlines():
        try:
            delivered.append(json.loads(line)["event_id"])
        except ValueError:
            continue  # the line that a kill cut off; it was not acknowledged, and came again
    assert promised <= set(delivered)
    firsts = list(dict.fromkeys(delivered))
    assert firsts == sorted(firsts)
