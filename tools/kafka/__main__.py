"""`python -m tools.kafka start` and `stop`: a Kafka server on this machine that outlives the command."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from pathlib import Path

from eventsieve.spark.java import own_folder
from tools.kafka.jars import JarsMissingError, connector_jars, server_jars
from tools.kafka.server import LOOPBACK, KafkaServer, ServerError, free_port

FOLDER = own_folder().parent / "kafka" / "node"
STATE = FOLDER / "running.json"


def main() -> int:
    """Do what the arguments ask for; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.kafka", description=__doc__)
    parser.add_argument("what", choices=("start", "stop"))
    parser.add_argument("--port", type=int, help="where to listen; else the port of last time, or a free one")
    parser.add_argument("--erase", action="store_true", help="with stop: remove all topics as well")
    asked = parser.parse_args()
    try:
        return start(asked.port) if asked.what == "start" else stop(asked.erase)
    except (JarsMissingError, ServerError) as problem:
        print(f"no Kafka: {problem}", file=sys.stderr)
        return 1


def start(port: int | None) -> int:
    """Start the server unless it runs, and say where it is."""
    former = _state()
    if former is None or not _runs(former["pid"]):
        port = port or (former and former["port"]) or free_port()
        print("bringing Kafka and Spark's connector (the first time takes a minute)", file=sys.stderr)
        jars = server_jars()
        connector_jars()
        server = KafkaServer(FOLDER, jars, port=port)
        server.start()
        former = {"pid": server.leave(), "port": port}
        STATE.write_text(json.dumps(former))
    print(f"Kafka is at {LOOPBACK}:{former['port']}  (topics and log: {FOLDER})")
    print("stop it:                 make kafka-stop")
    print(f"and remove its topics:   {Path(sys.executable).name} -m tools.kafka stop --erase")
    return 0


def stop(erase: bool) -> int:
    """Stop the server if it runs."""
    former = _state()
    if former is None or not _runs(former["pid"]):
        print("Kafka is not running")
    else:
        os.kill(former["pid"], signal.SIGTERM)
        while _runs(former["pid"]):
            time.sleep(0.1)
        print("Kafka is stopped; its topics are kept" if not erase else "Kafka is stopped")
    if erase:
        KafkaServer(FOLDER, FOLDER).erase()
    return 0


def _state() -> dict[str, int] | None:
    try:
        return json.loads(STATE.read_text())
    except (OSError, ValueError):
        return None


def _runs(pid: int) -> bool:
    """Say whether a process is our server: numbers are given again to others."""
    try:
        return os.fsencode(FOLDER) in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main())
