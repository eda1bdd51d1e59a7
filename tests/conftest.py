"""Settings that all tests share."""

from __future__ import annotations

import os
from collections.abc import Generator

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# Both profiles draw the same examples every time: a failure is there for everybody, or for nobody. Compiling a kernel
# makes the first example slow, so there is no deadline.
_COMMON = {
    "derandomize": True,
    "deadline": None,
    "print_blob": True,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}
settings.register_profile("quick", max_examples=30, stateful_step_count=30, **_COMMON)
settings.register_profile("deep", max_examples=200, stateful_step_count=60, **_COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

_LONGEST = (
    "tests/kafka/test_recovery",
    "tests/spark/test_cluster",
    "tests/catalog/test_writers",
    "tests/spark",
    "tests/kafka",
    "tests/broker",
    "tests/conformance",
)
"""Files that begin like this take longest: they start servers and processes, or run for every matcher."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, so that no worker is left alone with one of them at the end."""

    def turn(item: pytest.Item) -> int:
        return next((n for n, name in enumerate(_LONGEST) if item.nodeid.startswith(name)), len(_LONGEST))

    items.sort(key=turn)


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator with a fixed seed, new for every test."""
    return np.random.default_rng(20_260_101)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let tests that are left out for want of Kafka share one line of the summary, whichever file they are in."""
    report = yield
    if isinstance(report.longrepr, tuple) and "Kafka tests are left out" in report.longrepr[2]:
        report.longrepr = ("tests/kafka/server.py", 1, report.longrepr[2])
    return report
