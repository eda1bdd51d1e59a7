"""Named cases, kept as data in cases.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import eventsieve as es
from tests.conformance.conftest import Setting

CASES = json.loads((Path(__file__).parent / "cases.json").read_text())


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_case(setting: Setting, case: dict[str, Any]) -> None:
    """Built at once, and added one by one to an empty index: the expected ids for every event."""
    schema = es.Schema.from_json(case["schema"])
    subscriptions = es.Subscriptions(schema)
    grown = setting.build(es.Subscriptions(schema))
    for id, text in case["subscriptions"].items():
        subscriptions.add(id, text)
        grown.add(id, text)
    for index in (setting.build(subscriptions), grown):
        found = index.match_batch([event for event, _ in case["events"]])
        for e, (_, expected) in enumerate(case["events"]):
            assert sorted(found.of(e)) == sorted(expected)
