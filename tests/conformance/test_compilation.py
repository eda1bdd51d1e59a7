"""Every kernel is compiled for one combination of types: a second one costs seconds in every fresh worker."""

from __future__ import annotations

import subprocess
import sys

import pytest

import eventsieve as es

SCRIPT = """
import re, sys, tempfile
import numba.core.dispatcher
import numpy as np
import pyarrow as pa
import eventsieve as es

name = sys.argv[1]
schema = es.Schema({"x": es.Float(0, 1), "n": es.Int(0, 9), "t": es.Text()})
rng = np.random.default_rng(1)
low = rng.random(400) * 0.5
high = low + 0.5 + np.tile([0, 3.0], 200)
ids = np.arange(200) + 1000
subs = es.Subscriptions.from_arrays(schema, np.arange(0, 401, 2), np.tile([0, 1], 200), low, high, ids=ids)
index = es.build(subs, matcher=name)
rows = [{"x": 0.5, "n": 2, "t": "A"}, {}, {"n": 1}]
table = pa.Table.from_pylist(rows, schema=pa.schema({"x": pa.float64(), "n": pa.int64(), "t": pa.string()}))
with tempfile.TemporaryDirectory() as folder:
    index.save(folder + "/s")
    for each in (index, es.load(folder + "/s"), es.load(folder + "/s", verify=False)):
        each.match({"x": 0.5})
        each.match_batch(table)
        each.match_batch(rows * 4, threads=2)
        each.add("a", "x > 0.25 AND n IN (1, 2)")
        each.add("b", "t = 'A' OR x IS NULL")
        each.match_batch(rows)
        each.remove_many(["a", 1005, 1006])
        each.match_batch(table)
twice = {}
for module in [module for key, module in sorted(sys.modules.items()) if key.startswith("eventsieve")]:
    for label, thing in vars(module).items():
        if isinstance(thing, numba.core.dispatcher.Dispatcher) and thing.__module__ == module.__name__:
            # Only arrays count, and of them the layout and whether they can be written. Lists of 16 and of 32 bits
            # share kernels on purpose, and a constant in a call between kernels has a type of its own.
            kinds = set()
            for each in thing.signatures:
                kinds.add(re.sub(r"uint(16|32)", "uint", str(re.findall(r"[Aa]rray[^)]*", str(each)))))
            if len(kinds) > 1:
                twice[module.__name__ + "." + label] = sorted(kinds)
print(twice)
"""


@pytest.mark.deep
@pytest.mark.parametrize("name", es.matchers())
def test_each_kernel_is_compiled_once(name: str) -> None:
    """Built, loaded, changed, from dicts and from Arrow, on one thread and two: always the same kinds of array."""
    run = subprocess.run([sys.executable, "-c", SCRIPT, name], capture_output=True, text=True, check=True)
    assert run.stdout == "{}\n"
