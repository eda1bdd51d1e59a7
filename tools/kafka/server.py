"""A Kafka server of one node on this machine, for trying things out and for tests."""

from __future__ import annotations

import base64
import os
import shutil
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from eventsieve.spark.java import find_java

LOOPBACK = "127.0.0.1"
START = 90.0
"""Seconds that a busy machine may need to start the server; a free one needs three."""
OPTIONS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
"""Start quickly and stay small rather than run fast for days."""
LARGEST_MESSAGE = 16 << 20


class ServerError(Exception):
    """The server does not start; the message says why."""


class KafkaServer:
    """Formats storage in a folder, serves it on loopback ports, and comes back with its data and its ports.

    `users` adds a second listener, `secured`, that asks for a name and a password (SASL/PLAIN).
    """

    def __init__(
        self, folder: Path, jars: Path, users: Mapping[str, str] | None = None, heap: int = 320, port: int | None = None
    ) -> None:
        self.folder, self._jars, self._users, self._heap = folder, jars, dict(users or {}), heap
        some, self._secured_port, self._controller_port = free_ports(3)
        self._port = port or some
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """What a client names as its bootstrap server."""
        return f"{LOOPBACK}:{self._port}"

    @property
    def secured(self) -> str:
        """The listener that asks for a name and a password."""
        return f"{LOOPBACK}:{self._secured_port}"

    def start(self) -> None:
        """Start the process and return when it accepts connections; format the storage first if it is new."""
        self.folder.mkdir(parents=True, exist_ok=True)
        settings = self.folder / "server.properties"
        settings.write_text("".join(f"{name}={value}\n" for name, value in self._settings().items()))
        if not (self.folder / "data" / "meta.properties").exists():
            self._format(settings)
        with open(self.folder / "server.log", "ab") as log:
            # A session of its own: Ctrl-C in the terminal that started it is not meant for it.
            self.process = subprocess.Popen(
                self._java("kafka.Kafka", str(settings)), stdout=log, stderr=log, start_new_session=True
            )
        self._await(time.monotonic() + START)

    def stop(self) -> None:
        """Let the server finish and end."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End the server as a power cut would."""
        self._end(signal.SIGKILL)

    def leave(self) -> int:
        """Let the server run on without this object; return its process number."""
        if self.process is None:
            raise ServerError("the server is not running")
        number = self.process.pid
        self.process.returncode = 0  # else Python warns about a process whose end it has not seen
        self.process = None
        return number

    def erase(self) -> None:
        """Remove all data and the log."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _end(self, number: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            try:
                self.process.wait(START)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None

    def _format(self, settings: Path) -> None:
        command = self._java("kafka.tools.StorageTool", "format", "-t", new_cluster_id(), "-c", str(settings))
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode != 0:
            # The reason comes first; what follows is a stack of calls.
            raise ServerError(f"Kafka cannot format {self.folder}: {(ran.stderr or ran.stdout).strip()[:500]}")

    def _await(self, until: float) -> None:
        ports = [self._port, *([self._secured_port] if self._users else [])]
        while not all(_accepts(port) for port in ports):
            if self.process is not None and self.process.poll() is not None:
                self.process = None
                raise ServerError(f"Kafka ended while starting: {self._last_words()}")
            if time.monotonic() > until:
                self.kill()
                raise ServerError(f"Kafka did not start within {START:.0f} seconds: {self._last_words()}")
            time.sleep(0.05)

    def _last_words(self) -> str:
        return (self.folder / "server.log").read_text(errors="replace").strip()[-800:]

    def _java(self, program: str, *words: str) -> list[str]:
        java = os.fspath(find_java().home / "bin" / "java")
        return [java, f"-Xmx{self._heap}m", *OPTIONS, "-cp", f"{self._jars}/*", program, *words]

    def _settings(self) -> dict[str, str]:
        listeners = {"PLAIN": self._port, "CONTROLLER": self._controller_port}
        protocols = {"PLAIN": "PLAINTEXT", "CONTROLLER": "PLAINTEXT"}
        settings = {}
        if self._users:
            listeners["SECURED"], protocols["SECURED"] = self._secured_port, "SASL_PLAINTEXT"
            people = " ".join(f'user_{name}="{password}"' for name, password in self._users.items())
            module = "org.apache.kafka.common.security.plain.PlainLoginModule"
            settings["sasl.enabled.mechanisms"] = "PLAIN"
            settings["listener.name.secured.plain.sasl.jaas.config"] = f"{module} required {people};"
        served = {name: f"{name}://{LOOPBACK}:{port}" for name, port in listeners.items()}
        return settings | {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": ",".join(served.values()),
            "advertised.listeners": ",".join(text for name, text in served.items() if name != "CONTROLLER"),
            "listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, kind in protocols.items()),
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAIN",
            "controller.quorum.voters": f"1@{LOOPBACK}:{self._controller_port}",
            "log.dirs": str(self.folder / "data"),
            # One node can hold one copy; and it need not wait for group members that are not there.
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.num.partitions": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            # A misspelt topic is an error, not a new topic.
            "auto.create.topics.enable": "false",
            "message.max.bytes": str(LARGEST_MESSAGE),
            # After a kill the node does not wait for its old self's session to end.
            "broker.session.timeout.ms": "3000",
            "broker.heartbeat.interval.ms": "500",
        }


def new_cluster_id() -> str:
    """Return a random name for a cluster, as Kafka writes them, but none that starts like an option, with a dash."""
    while (name := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return name


def free_port() -> int:
    """Return a port that nobody listens on now."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Return several ports, all different: asked for one by one, the same could come twice."""
    with ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind((LOOPBACK, 0))
        return [int(probe.getsockname()[1]) for probe in probes]


def _accepts(port: int) -> bool:
    try:
        with socket.create_connection((LOOPBACK, port), timeout=1):
            return True
    except OSError:
        return False
