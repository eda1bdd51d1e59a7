"""H-Tree: clauses in buckets by the cells of their most telling predicates; an event opens few buckets.

Qian, Cao, Zhu, Li, Wang: "H-Tree: An Efficient Index Structure for Event Matching in Content-Based Publish/Subscribe
Systems", IEEE TPDS 2015. Section 3.2 (choice of attributes), 3.3 (overlapping cells, value transform), 3.4 (chaining),
3.5 (number of cells), 4 (splitting of wide predicates).

An indexed attribute's domain is cut into c segments; two neighbours make a cell, so the c - 1 cells overlap, and a
narrow predicate lies wholly within one. One more cell takes the clauses without a predicate on the attribute. Level t
of the tree divides by the t-th indexed attribute. An event's value lies in at most two cells, so an event goes down at
most three of c branches at each level.

Differences from the paper:

* A predicate goes to cell j when its ends lie in segments j to j + 1, by the very function that places event values.
  The paper's nearest centre loses matches at segment borders.
* Only buckets that hold something exist, and a bucket is divided by the next attribute once it holds more than
  `bucket` clauses. (The paper allots all c^l; it finds 100 to 500 clauses per bucket enough.) `bucket=0` divides to
  the full depth.
* A wide predicate is split over cells that share no segment, so that an event meets each clause once and there is
  nothing to deduplicate. Past `copies` entries for one clause, an attribute goes to the no-predicate cell.
* Buckets hold, with each clause's slot, three of its predicates rounded outwards to 1/256 of the domain: a
  sequential read rules out nearly all the candidates the tree leaves over, before any look into the clause table.
* An event without an indexed attribute goes down the no-predicate branch alone.
* Popularity and narrowness are one number: the share of clauses that an attribute rules out for a random event.
"""

from __future__ import annotations

from eventsieve.matchers.h_tree.matcher import HTree

__all__ = ["HTree"]
