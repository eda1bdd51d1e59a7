"""What insertions and deletions cost, matcher by matcher: its own part, and all of it with the collection's.

    python experiments/hem/changes.py --n 1000000

Claim (section 5.2.3): HEM inserts in 0.67 us and deletes in 1.2 us, less than its counterparts. Two ways of changing:

* new: 1,000 subscriptions are inserted and deleted again, as `eventsieve bench` does. The median counts.
* long: 200,000 subscriptions are inserted, then 300,000 of all are deleted at random, 1,000 in a call. What a matcher
  puts off falls into this run: filing, sweeping, dividing, growing. So here the mean counts. A matcher that takes more
  than 100 us for a new subscription is left out.

Processor time in microseconds per subscription; matchers take turns call by call, so that none finds its caches warm.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from time import thread_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

import eventsieve as es
from eventsieve.bench.timing import new_subscriptions
from eventsieve.workload import Workload, standard

EVERYONE = ["hem", "be-tree", "h-tree", "rein", "gem-tree", "op-index", "tama-o", "sieve", "simple"]
KINDS = ["insert, new", "delete, new", "insert, long", "delete, long"]
AT_ONCE = 1000
SLOW = 100.0


class Rival:
    """An index whose changes are timed, and the share of its matcher in them."""

    def __init__(self, name: str, subscriptions: es.Subscriptions) -> None:
        self.name = name
        self.index = es.build(subscriptions, matcher=name)
        self.times: dict[str, list[tuple[float, float]]] = {}
        self._own = 0.0
        matcher: Any = self.index.matcher
        matcher.insert, matcher.delete = self._timed(matcher.insert), self._timed(matcher.delete)

    def _timed(self, call: Callable[..., None]) -> Callable[..., None]:
        def timed(*arguments: Any) -> None:
            begin = thread_time()
            call(*arguments)
            self._own += thread_time() - begin

        return timed

    def change(self, kind: str, call: Callable[[Any], None], argument: Any) -> None:
        """Time one call of AT_ONCE changes: the matcher's part, and all of it."""
        self._own = 0.0
        begin = thread_time()
        call(argument)
        spent = thread_time() - begin
        self.times.setdefault(kind, []).append((self._own * 1e6 / AT_ONCE, spent * 1e6 / AT_ONCE))

    def micros(self, kind: str) -> NDArray[np.float64]:
        """Return median and mean, of the matcher and of the index."""
        own, whole = np.array(self.times[kind]).T
        return np.array([np.median(own), own.mean(), np.median(whole), whole.mean()])


def in_turn(rivals: list[Rival], number: int) -> list[Rival]:
    """Return the rivals with another one first each time: the first finds the new subscriptions out of the caches."""
    first = number % len(rivals)
    return rivals[first:] + rivals[:first]


def change_new(workload: Workload, rivals: list[Rival], rounds: int) -> None:
    """Insert and delete as many round by round; the first round, which copies shared arrays, is not counted."""
    for number in range(rounds + 1):
        more = new_subscriptions(workload, workload.n, AT_ONCE, seed=1000 + number)
        for rival in in_turn(rivals, number):
            rival.change("insert, new", rival.index.extend, more)
            rival.change("delete, new", rival.index.remove_many, more.ids.tolist())
            if number == 0:
                rival.times.clear()


def change_long(workload: Workload, rivals: list[Rival], inserted: int, deleted: int) -> None:
    """Insert many, then delete any."""
    for number in range(inserted // AT_ONCE):
        more = new_subscriptions(workload, workload.n + number * AT_ONCE, AT_ONCE, seed=5000 + number)
        for rival in in_turn(rivals, number):
            rival.change("insert, long", rival.index.extend, more)
    gone = np.random.default_rng(1).permutation(workload.n + inserted)[:deleted]
    for number, ids in enumerate(gone.reshape(-1, AT_ONCE).tolist()):
        for rival in in_turn(rivals, number):
            rival.change("delete, long", rival.index.remove_many, ids)


def check(workload: Workload, rivals: list[Rival]) -> None:
    """See to it that all have the same answers after the changes."""
    events = workload.events(3, seed=9)
    answers = {rival.name: [sorted(rival.index.match_batch(events).of(e)) for e in range(3)] for rival in rivals}
    wrong = [name for name, found in answers.items() if found != answers[rivals[0].name]]
    if wrong:
        raise SystemExit(f"{', '.join(wrong)} and {rivals[0].name} do not agree after the changes; this is a bug")


def print_table(title: str, rivals: list[Rival], first: int) -> None:
    """Print a row per matcher, with the two numbers of `micros` from `first` on per kind of change."""
    print(f"\n| {' | '.join([title, *KINDS])} |\n| --- |{' ---: |' * len(KINDS)}")
    for rival in rivals:
        known = [rival.micros(kind)[first : first + 2] if kind in rival.times else None for kind in KINDS]
        cells = ["" if numbers is None else f"{numbers[0]:.2f} ({numbers[1]:.2f})" for numbers in known]
        print(f"| {' | '.join([f'`{rival.name}`', *cells])} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=1_000_000, help="subscriptions before the changes")
    parser.add_argument("--rounds", type=int, default=15, help="of new ones")
    parser.add_argument("--inserted", type=int, default=200_000)
    parser.add_argument("--deleted", type=int, default=300_000)
    parser.add_argument("matchers", nargs="*", default=EVERYONE)
    asked = parser.parse_args()
    compiled = standard("hem", n=AT_ONCE)
    change_long(compiled, [Rival(name, compiled.subscriptions()) for name in asked.matchers], 8 * AT_ONCE, AT_ONCE)
    workload = standard("hem", n=asked.n)
    subscriptions = workload.subscriptions()
    rivals = [Rival(name, subscriptions) for name in asked.matchers]
    change_new(workload, rivals, asked.rounds)
    quick = [rival for rival in rivals if rival.micros("insert, new")[0] < SLOW]
    change_long(workload, quick, asked.inserted, asked.deleted)
    check(workload, quick)
    print_table("matcher alone: median (mean)", rivals, first=0)
    print_table("whole index: median (mean)", rivals, first=2)


if __name__ == "__main__":
    main()
