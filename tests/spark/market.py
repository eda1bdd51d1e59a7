"""A small market for the Spark tests: a schema, filters of every kind, and events, all by seed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

import eventsieve as es

SCHEMA = es.Schema({"price": es.Float(0, 100), "symbol": es.Text(), "volume": es.Int(0, 1000), "halted": es.Bool()})


def filters(count: int, seed: int = 1) -> list[str]:
    """Return filters: ranges, texts, alternatives, residual checks and absences."""
    rng = np.random.default_rng(seed)
    forms = (
        "price BETWEEN {low} AND {high} AND symbol = '{symbol}'",
        "volume >= {volume} AND price < {high}",
        "symbol IN ('{symbol}', 'S9') OR price > {high}",
        "symbol LIKE '{symbol}%' AND NOT halted",
        "halted IS NULL AND price > {low}",
    )
    found = []
    for number in range(count):
        low = int(rng.integers(0, 90))
        names = {"low": low, "high": low + 10, "symbol": f"S{rng.integers(5)}", "volume": int(rng.integers(1000))}
        found.append(forms[number % len(forms)].format(**names))
    return found


def events(count: int, seed: int = 1) -> list[dict[str, Any]]:
    """Return events, some of which lack attributes; `event_id` names them."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        row: dict[str, Any] = {"event_id": f"{seed}-{number}", "price": round(float(rng.uniform(0, 100)), 2)}
        row["symbol"] = f"S{rng.integers(6)}"
        if rng.random() < 0.8:
            row["volume"] = int(rng.integers(1000))
        if rng.random() < 0.7:
            row["halted"] = bool(rng.integers(2))
        rows.append(row)
    return rows


def subscriptions(count: int = 60) -> es.Subscriptions:
    subs = es.Subscriptions(SCHEMA)
    for number, text in enumerate(filters(count)):
        subs.add(number, text)
    return subs


def expected(subs: es.Subscriptions, rows: list[dict[str, Any]]) -> set[tuple[Any, Any]]:
    """Return (event, subscription) of all matches, by the library alone."""
    index = es.build(subs, matcher="simple")
    plain = [{name: value for name, value in row.items() if name != "event_id"} for row in rows]
    found = index.match_batch(plain)
    return {(row["event_id"], id) for row, ids in zip(rows, found, strict=True) for id in ids}


def drop(folder: Path, name: str, lines: list[str]) -> None:
    """Put a file into a watched folder in one step."""
    folder.mkdir(parents=True, exist_ok=True)
    hidden = folder / f".{name}"
    hidden.write_text("\n".join(lines) + "\n", encoding="utf-8")
    os.replace(hidden, folder / name)


def as_lines(rows: list[dict[str, Any]]) -> list[str]:
    return [json.dumps(row) for row in rows]
