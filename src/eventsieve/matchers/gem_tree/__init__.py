"""GEM-Tree: a tree that divides clauses by attribute, then by where their interval on it lies in a triangle.

Fan, Xiong, Wu, Liu: "GEM-Tree: Tree-Based Analytic Geometrical Multi-Dimensional Content-Based Event Matching", IEEE
Access 2019. Section IV-B-1 (structure), IV-B-2 (triangle), IV-B-3 (ranking, split attribute), IV-C (Algorithms 1 to 4),
IV-D (global adjustment).

An attribute node has a bucket of clauses and a directory of attributes. Each attribute there leads to a triangle: an
interval is a point, its low end the column and its high end the row of a cell, and every cell in use holds an attribute
node again. An event's value selects the cells at or above its row and at or below its column. Most of those lie wholly
on the right side and need no check of the attribute; its own column leaves the low end to check, its own row the high
end. An attribute that the event lacks rules out all that is below it.

Differences from the paper:

* `order="cell"`, the default: a clause goes down by the attribute whose cell *it* lies in is visited least. The paper's
  rank (`order="rank"`) is an average over all clauses of a branch, and files a clause by a wide predicate though it
  has a narrow one. A clause whose best attribute is not in the directory waits in the bucket, and votes at the next
  split.
* Finer triangles (order="cell"): an overfull bucket in a cell on the diagonal may be divided by the same attribute
  again, whose triangle then spans that cell alone. With 8 cells a side, single values out of 32 would otherwise share
  a cell with three others.
* A rate of visits is that of the cell, not of the whole triangle; uniform values are assumed until `adjust` has events.
* An erased clause is taken from the overflowing node's bucket (Algorithm 2 names the parent's triangle), and what a
  cell leaves to check holds for its own branch only (Algorithm 3 never takes it back).
* The global order puts the smaller sum of count and dispersion first, in raw numbers ("sum") or shares ("normalised").
* Many clauses at once are divided from the top down, by the same rules, rather than inserted one by one.
* Buckets hold codes of the predicates, one byte per bound, so that checking one is a sequential read; the clause table
  is looked into only where a code cannot tell.
* Deletion, which the paper leaves out: a clause knows its node and place, the last of the bucket fills the gap, and
  what becomes empty is given back.
"""

from __future__ import annotations

from eventsieve.matchers.gem_tree.matcher import GemTree

__all__ = ["GemTree"]
