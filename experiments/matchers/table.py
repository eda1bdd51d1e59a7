"""Write the tables of docs/matchers/README.md from the results of standard.toml. Reads results, runs nothing.

python experiments/matchers/table.py
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE.parent.parent / "docs" / "matchers" / "README.md"


def main() -> None:
    asked = tomllib.loads((HERE / "standard.toml").read_text())
    results = json.loads((HERE / "standard.results.json").read_text())
    runs = {name: {label(record): record for record in run["records"]} for name, run in results.items()}
    page = PAGE.read_text()
    page = replaced(page, "speed", speed_table(runs, asked))
    page = replaced(page, "memory", memory_table(runs["bop"]))
    page = replaced(page, "claims", claims_table(runs, asked))
    page = replaced(page, "machine", machine(results))
    PAGE.write_text(page)


def label(record: dict[str, Any]) -> str:
    """Return what a contestant is called: a matcher, and how it differs from its paper's parameters."""
    return "rein:absent=walk" if record["params"].get("absent") == "walk" else str(record["matcher"])


def speed_table(runs: dict[str, dict[str, Any]], asked: dict[str, Any]) -> list[list[str]]:
    """Return the time of one event as a multiple of the reference scan in the same run, with the bar beside it."""
    bars = {(bar["run"], name): limit for bar in asked["bar"] for name, limit in bar["at_most"].items()}
    names = list(dict.fromkeys(name for run in runs.values() for name in run))
    rows = [
        ["", *runs],
        ["reference scan, ms", *(f"{next(iter(run.values()))['reference_ms']:.2f}" for run in runs.values())],
    ]
    for name in names:
        cells = []
        for run_name, run in runs.items():
            ratio = run[name]["times_reference"] if name in run else None
            bar = bars.get((run_name, name))
            shown = "" if ratio is None else f"{ratio:.3f}"
            cells.append(f"**{shown}** (bar {bar})" if bar and ratio is not None else shown)
        rows.append([f"`{name}`", *cells])
    return rows


def memory_table(run: dict[str, Any]) -> list[list[str]]:
    """Return memory and the cost of changes on `bop`."""
    rows = [["", "bytes per subscription", "build, s", "insert, µs", "delete, µs"]]
    for name, record in run.items():
        rows.append(
            [
                f"`{name}`",
                f"{record['index_bytes'] / record['n']:.0f}",
                f"{record['build_s']:.1f}",
                f"{record['insert_us']:.1f}",
                f"{record['delete_us']:.1f}",
            ]
        )
    return rows


def claims_table(runs: dict[str, dict[str, Any]], asked: dict[str, Any]) -> list[list[str]]:
    """Return what the papers claim beside what we measured."""
    rows = [["paper", "workload", "time of", "as a share of", "paper", "here"]]
    for claim in asked["claim"]:
        run = runs.get(claim["run"], {})
        if claim["of"] in run and claim["against"] in run:
            ours = run[claim["of"]]["mean_ms"] / run[claim["against"]]["mean_ms"]
            rows.append(
                [
                    claim["paper"],
                    claim["run"],
                    f"`{claim['of']}`",
                    f"`{claim['against']}`",
                    f"{claim['share']}",
                    f"{ours:.3f}",
                ]
            )
    return rows


def machine(results: dict[str, Any]) -> str:
    """Return where, when and how the numbers were taken."""
    record = next(iter(results.values()))["records"][0]
    commands = "\n".join(run["command"] for run in results.values())
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    return f"Taken on {record['started'][:10]}, {record['cpu']}; {versions}; one thread.\n\n```\n{commands}\n```"


def replaced(page: str, name: str, content: list[list[str]] | str) -> str:
    """Put content between the two comments that name its place."""
    if not isinstance(content, str):
        head, *body = content
        lines = [head, ["---"] * len(head), *body]
        content = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    pattern = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
    assert pattern.search(page), f"docs/matchers/README.md has no place for {name}"
    return pattern.sub(lambda found: f"{found[1]}{content}\n{found[2]}", page)


if __name__ == "__main__":
    main()
