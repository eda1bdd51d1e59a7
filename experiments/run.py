"""Run the benches that a declarative file asks for, one after the other, and keep every record beside it.

python experiments/run.py experiments/matchers/standard.toml [NAME ...]
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any


def main(path: Path, only: list[str]) -> None:
    asked = tomllib.loads(path.read_text())
    results = path.with_suffix(".results.json")
    kept: dict[str, Any] = json.loads(results.read_text()) if results.exists() else {}
    for run in asked["run"]:
        if only and run["name"] not in only:
            continue
        command = bench_command({**asked.get("defaults", {}), **run})
        print("$", *command, file=sys.stderr)
        done = subprocess.run([sys.executable, "-m", *command, "--json", "-"], stdout=subprocess.PIPE, text=True)
        records = [json.loads(line) for line in done.stdout.splitlines()]
        if not records:
            sys.exit(f"the run {run['name']!r} gave no records")
        kept[run["name"]] = {"command": " ".join(command), "records": [slim(record) for record in records]}
        results.write_text(json.dumps(kept, indent=1) + "\n")


def bench_command(run: dict[str, Any]) -> list[str]:
    """Return the command line of one run, as anybody could type it."""
    command = ["eventsieve", "bench", "--workload", run["workload"], "--matchers", run["matchers"]]
    for setting in run.get("set", []):
        command += ["--set", setting]
    if "batch" in run:
        command += ["--batch", str(run["batch"])]
    return [*command, "--events", str(run["events"]), "--repeat", str(run["repeat"])]


def slim(record: dict[str, Any]) -> dict[str, Any]:
    """Leave out the raw times, which would fill megabytes; the spread is in the percentiles."""
    return {name: value for name, value in record.items() if name != "raw"}


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
