"""EEM's test bed: publisher, broker and subscribers as processes of their own, with a real Kafka between them.

    python experiments/eem/kafka.py run [--n 200000] [--peak 1.2]
    python experiments/eem/kafka.py draw

Latency is from the generation of a tick to its receipt by a subscriber: twice through Kafka, decoding, waiting,
matching and encoding. First it is measured how many ticks a second the broker carries with exact REIN; then every
matcher gets the same ticks at the same moments, along the load of `load.py`, which passes that capacity at its peak
(section 5.2). What else the machine does counts here, so each run notes its load.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import load
import numpy as np
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from lane import built
from lines import Chart, Line, page
from numpy.typing import NDArray

from eventsieve.bench.machine import commit, cpu_name, versions
from eventsieve.broker import Broker
from eventsieve.broker.kafka import KafkaSink, KafkaSource
from eventsieve.broker.kafka.records import RecordForm
from eventsieve.broker.wire import to_json
from eventsieve.elastic.settings import OFF, ElasticSettings
from eventsieve.kafka import KafkaPlace
from eventsieve.workload import Workload, standard

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Path(__file__).with_suffix(".results.json")
PICTURE = ROOT / "docs" / "img" / "elastic-load-kafka.svg"
SUBSCRIBERS = 2
ELASTIC = str(load.SETTINGS)
SECONDS = load.SECONDS
SETTINGS: dict[str, tuple[str, str]] = {
    "REIN": ("rein", "off"),
    "Ada-REIN": ("ada-rein", ELASTIC),
    "WPA-REIN": ("wpa-rein", ELASTIC),
    "auto": ("auto", "off"),
}
END = "end"
"""Key of the record that tells a subscriber that nothing more comes."""


def ticks(n: int) -> Workload:
    return standard("ticks", n=n, attribute_skew=0.0)


# -- the processes -------------------------------------------------------------------------------------------


def publish(address: str, topic: str, file: str) -> None:
    """Send the ticks of a file, each at its moment; a header says when it was generated."""
    plan = np.load(file)
    lines, due = plan["lines"], plan["due"]
    producer = Producer({"bootstrap.servers": address, "linger.ms": 1, "acks": "1"})
    begin = time.time()
    for number, (line, moment) in enumerate(zip(lines.tolist(), due.tolist(), strict=True)):
        while (left := begin + moment - time.time()) > 0:
            producer.poll(min(left, 0.01))
        # Generated when it was due: a publisher that is late must not make the system look better.
        generated = str(int((begin + moment) * 1e6))
        producer.produce(topic, line, key=str(number), headers={"generated": generated})
    producer.flush()
    print(json.dumps({"begin": begin, "late": time.time() - begin - float(due[-1])}))


def serve(address: str, source: str, sink: str, matcher: str, elastic: str, n: int, count: int) -> None:
    """Be the broker until a number of ticks is delivered; then print what was seen of F and of the queue."""
    settings = ElasticSettings.parse(elastic) if elastic != "off" else OFF
    workload = ticks(n)
    index = built(workload, matcher, settings)
    index.match_batch(workload.events(512, seed=3))
    place = KafkaPlace(address, sink)
    kafka = KafkaSource(KafkaPlace(address, source), f"group-{source}")
    broker = Broker(index, sources=[kafka], elastic=settings, batch=64, queue=100_000)
    target = KafkaSink(place, RecordForm(place, "arrays"))
    broker.attach(target, everything=True, when_full="block", when_refused="stop")
    broker.start()
    while kafka.membership is None:
        time.sleep(0.01)
    print("ready", flush=True)
    seen = []
    while (stats := broker.stats()).received < count or not broker.drain(0.05):
        seen.append((time.time(), stats.false_positive, stats.waiting))
        time.sleep(0.05)
    broker.stop()
    print(json.dumps({"matcher": index.matcher.name, "seen": seen, "matches": stats.matches}), flush=True)


def subscribe(address: str, topic: str, partition: int, file: str) -> None:
    """Take what comes in one partition; write down when each tick was generated and how long it took."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": f"{topic}-{partition}", "fetch.wait.max.ms": 10})
    consumer.assign([TopicPartition(topic, partition, 0)])
    print("ready", flush=True)
    rows = []
    while True:
        message = consumer.poll(1.0)
        if message is None or message.error() is not None:
            continue
        if message.key() == END.encode():
            break
        generated = int(dict(message.headers())["generated"]) / 1e6
        rows.append((generated, time.time() - generated))
    consumer.close()
    np.save(file, np.array(rows))


# -- the experiment ------------------------------------------------------------------------------------------


class Process:
    """A part of the test bed."""

    def __init__(self, *words: str) -> None:
        self._process = subprocess.Popen([sys.executable, __file__, *words], stdout=subprocess.PIPE, text=True)

    def ready(self) -> None:
        assert self._process.stdout is not None
        while (line := self._process.stdout.readline()) != "ready\n":
            assert line, "the process ended before it was ready"

    def result(self) -> Any:
        out, _ = self._process.communicate()
        assert self._process.returncode == 0, "a process failed"
        return json.loads(out) if out.strip() else None


class TestBed:
    """A Kafka server and topics for one run after the other."""

    def __init__(self, address: str, folder: Path, n: int) -> None:
        self.address, self.folder, self.n = address, folder, n

    def topics(self, name: str) -> tuple[str, str]:
        made = [NewTopic(f"{name}-ticks", 1, 1), NewTopic(f"{name}-matches", SUBSCRIBERS, 1)]
        admin = AdminClient({"bootstrap.servers": self.address})
        for each in admin.create_topics(made).values():
            each.result()
        return f"{name}-ticks", f"{name}-matches"

    def plan(self, due: NDArray[np.float64]) -> str:
        """Write down ticks and their moments for the publisher; return the file."""
        events = ticks(self.n).events(due.size, seed=5)
        file = self.folder / "plan.npz"
        np.savez(file, lines=np.array([to_json(events[e]) for e in range(due.size)]), due=due)
        return str(file)

    def run(self, name: str, matcher: str, elastic: str, due: NDArray[np.float64]) -> dict[str, Any]:
        """Send ticks at their moments through a broker; return what the parts have seen."""
        ticks, matches = self.topics(name)
        files = [str(self.folder / f"{name}-{each}.npy") for each in range(SUBSCRIBERS)]
        subscribers = [Process("subscribe", self.address, matches, str(each), file) for each, file in enumerate(files)]
        broker = Process("serve", self.address, ticks, matches, matcher, elastic, str(self.n), str(due.size))
        for process in (*subscribers, broker):
            process.ready()
        sent = Process("publish", self.address, ticks, self.plan(due)).result()
        seen = broker.result()
        producer = Producer({"bootstrap.servers": self.address})
        for each in range(SUBSCRIBERS):
            producer.produce(matches, b"", key=END, partition=each)
        producer.flush()
        for process in subscribers:
            process.result()
        rows = np.concatenate([np.load(file) for file in files])
        rows = rows[np.argsort(rows[:, 0])]
        return {"begin": sent["begin"], "late": sent["late"], "rows": rows, **seen}


def summary(found: dict[str, Any]) -> dict[str, Any]:
    """Return what is kept of a run."""
    begin, rows = found["begin"], found["rows"]
    second, latency = np.clip(rows[:, 0] - begin, 0, SECONDS - 1).astype(int), rows[:, 1] * 1e3
    moment, share = np.array(found["seen"])[:, :2].T
    inside = (moment >= begin) & (moment < begin + SECONDS)
    in_second = (moment[inside] - begin).astype(int)
    looks = np.maximum(np.bincount(in_second, minlength=SECONDS), 1)
    return {
        "matcher": found["matcher"],
        "matches": found["matches"],
        "received": int(latency.size),
        "mean_ms": round(float(latency.mean()), 2),
        "std_ms": round(float(latency.std()), 2),
        "p50_ms": round(float(np.percentile(latency, 50)), 2),
        "p95_ms": round(float(np.percentile(latency, 95)), 2),
        "p99_ms": round(float(np.percentile(latency, 99)), 2),
        "latency_by_second_ms": [round(float(latency[second == at].mean()), 2) for at in range(SECONDS)],
        "F": (np.bincount(in_second, share[inside], SECONDS) / looks).round(6).tolist(),
        "last_F": float(share[-1]),
        "publisher_late_s": round(found["late"], 3),
    }


def capacity(bed: TestBed, count: int) -> float:
    """Return how many ticks a second the broker carries with exact REIN, when they are all there at once."""
    found = bed.run("capacity", "rein", "off", np.zeros(count))
    arrived = found["rows"].sum(axis=1)
    middle = np.sort(arrived)[count // 10 :]
    return float((middle.size - 1) / (middle[-1] - middle[0]))


def run(n: int, peak: float, turns: int) -> None:
    from tools.kafka.jars import server_jars
    from tools.kafka.server import KafkaServer

    with tempfile.TemporaryDirectory() as scratch:
        server = KafkaServer(Path(scratch) / "kafka", server_jars(), heap=512)
        server.start()
        try:
            bed = TestBed(server.address, Path(scratch), n)
            most = capacity(bed, 1_500)
            print(f"exact REIN carries {most:,.0f} ticks/s with {n:,} subscriptions", flush=True)
            due = load.arrivals(peak * most)
            runs = []
            for turn in range(turns):
                for name, (matcher, elastic) in SETTINGS.items():
                    kept = summary(bed.run(f"{matcher}-{turn}", matcher, elastic, due))
                    load_average = os.getloadavg()[0]
                    runs.append({"name": name, "turn": turn, "elastic": elastic, "load_average": load_average, **kept})
                    print(name, {word: kept[word] for word in ("mean_ms", "p95_ms", "std_ms", "last_F")}, flush=True)
        finally:
            server.kill()
    rate = np.bincount(due.astype(int), minlength=SECONDS).tolist()
    facts = {"n": n, "peak": peak, "capacity": most, "ticks": int(due.size), "rate": rate}
    facts |= {"commit": commit(), "cpu": cpu_name(), "versions": versions()}
    RESULTS.write_text(json.dumps({**facts, "runs": runs}, indent=1) + "\n", encoding="utf-8")


def draw() -> None:
    """Draw the rate, the latency of each matcher and F, by second."""
    found = json.loads(RESULTS.read_text(encoding="utf-8"))
    first = [each for each in found["runs"] if not each["turn"]]
    seconds = [at + 0.5 for at in range(SECONDS)]
    carried = Line("carried with exact REIN", [found["capacity"]] * SECONDS)
    charts = [
        Chart("ticks per second", seconds, [Line("arriving", found["rate"]), carried]),
        Chart(
            "mean latency, ms, generation to receipt",
            seconds,
            [Line(each["name"], each["latency_by_second_ms"]) for each in first],
            log=True,
        ),
        Chart(
            "F in force, in percent",
            seconds,
            [Line(each["name"], [100 * share for share in each["F"]]) for each in first if each["elastic"] != "off"],
        ),
    ]
    title = f"Through Kafka: a load that peaks at {found['peak']:g} times what exact REIN carries, n = {found['n']:,}"
    PICTURE.write_text(page(title, charts), encoding="utf-8")


def main() -> None:
    if sys.argv[1:2] in (["publish"], ["serve"], ["subscribe"]):
        words: list[Any] = [int(word) if word.isdigit() else word for word in sys.argv[2:]]
        {"publish": publish, "serve": serve, "subscribe": subscribe}[sys.argv[1]](*words)
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "draw"))
    parser.add_argument("--n", type=int, default=200_000)
    parser.add_argument("--peak", type=float, default=1.2, help="the highest rate, as a multiple of REIN's capacity")
    parser.add_argument("--turns", type=int, default=1, help="how often every matcher gets its turn")
    asked = parser.parse_args()
    if asked.what == "run":
        sys.path.insert(0, str(ROOT))
        run(asked.n, asked.peak, asked.turns)
    draw()


if __name__ == "__main__":
    main()
