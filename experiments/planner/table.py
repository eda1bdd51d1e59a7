"""Write the tables of docs/planner.md from the results beside this file.

python experiments/planner/table.py
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE.parent.parent / "docs" / "planner.md"


def main() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for name, lines in (("regret", regret()), ("sharing", sharing()), ("covering", covering())):
        block = f"<!-- {name} -->\n" + "\n".join(lines) + f"\n<!-- end of {name} -->"
        text = re.sub(rf"<!-- {name} -->.*?<!-- end of {name} -->", lambda _, block=block: block, text, flags=re.DOTALL)
    PAGE.write_text(text, encoding="utf-8")


def records(name: str, *keys: str) -> list[dict[str, Any]]:
    """Return the newest record of each kind, in the order in which the kinds came."""
    path = HERE / f"{name}.results.jsonl"
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        record = json.loads(line)
        found[tuple(record[key] for key in keys)] = record
    return list(found.values())


def table(heading: list[str], rows: list[list[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (heading, ["---"] * len(heading), *rows)]


def regret() -> list[str]:
    rows = []
    found = sorted(records("regret", "workload", "n"), key=lambda record: -record["n"])
    for record in found:
        cells = [record["workload"], f"{record['n']:,}"]
        for choice in record["choices"]:
            possible = f" of {choice['least_possible']:.2f}" if choice["least_possible"] > 1.005 else ""
            cells.append(f"`{choice['chosen']}` {choice['ratio']:.2f}{possible}")
        took = max(choice["planning_s"] for choice in record["choices"])
        rows.append([*cells, f"{took:.2f}"])
    heading = ["workload", "n", "batch=1", "batch=512", "both", "planning, s"]
    note = (
        "Where both count, `of` is the least that any one matcher reaches: the best at one may not be so at the other."
    )
    machine = f"{found[0]['cpu']}, one thread, beside other load." if found else ""
    return [*table(heading, rows), "", f"{note} {machine}"]


def sharing() -> list[str]:
    rows = []
    found = {
        (r["workload"], r["repeated"], r["shared"]): r for r in records("sharing", "workload", "repeated", "shared")
    }
    plain = [record for record in found.values() if not record["shared"]]
    for record in plain:
        shared = found.get((record["workload"], record["repeated"], True))
        rows.append(
            [
                f"{record['workload']}, `{record['matcher']}`",
                f"{record['repeated']:.0%}",
                *(
                    f"{record[key] * scale:.{digits}f}" + (f" → {shared[key] * scale:.{digits}f}" if shared else "")
                    for key, scale, digits in (
                        ("bytes", 1e-6, 0), ("build_s", 1, 2), ("single_ms", 1, 3), ("batch_ms", 1, 3)
                    )
                ),
            ]
        )  # fmt: skip
    return table(["workload", "repeated", "MB", "build, s", "one event, ms", "in a batch, ms"], rows)


def covering() -> list[str]:
    rows = [
        [
            record["workload"],
            f"{record['covered']:.1%}",
            f"{record['finding_us_per_clause']:.0f}",
            f"{record['all_ms']:.4f}",
            f"{record['roots_ms']:.4f}",
            f"{record['checks_per_event']:,.0f}",
            f"{record['with_checks_ms']:.4f}",
        ]
        for record in records("covering", "workload", "n")
    ]
    return table(
        ["workload", "covered", "µs to find, each", "all, ms", "roots, ms", "checks per event", "roots and checks, ms"],
        rows,
    )


if __name__ == "__main__":
    main()
