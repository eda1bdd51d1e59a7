"""HEM: per attribute, mark whom a value rules out in a triangle of intervals, or check who is left; choose per event.

Paper: Fan, Liu, Tang: "Toward high efficiency for content-based multi-attribute event matching via hybrid methods",
Sci China Inf Sci 2016. Section 4.2.1 (the triangle, `triangle.py`), 4.2.2 and 4.3.1 (the two methods and the queue,
`search.py`), 4.3.2 and 4.3.3 (cost model, order and method per event, `plan.py`). New clauses stand in a tail
(`tail.py`) and are filed into the triangles many at a time (`filing.py`).

An interval is a point: its middle to the right, half its width upwards. All points lie in an isosceles triangle, which
is cut into square grids. Two lines rise from a value on the baseline: left of one lie the intervals that end before the
value, right of the other those that begin after it, between them those that hold it. So most grids are decided
whole, and only in those that a line cuts is there anything to compare. The direct method instead checks
the clauses that are left one by one. Attributes form a queue, the most selective first; early in it the triangle is
cheaper, and later, with few clauses left, the direct check.

Differences from the paper:

* Formula (3) gives rows the wrong height: half widths reach only R/2, so rows are R/(2 tau) high, as columns are wide.
* Ends are 16-bit codes, and grids, lines and bands are whole numbers. Nothing is rounded where a line cuts grids. Only
  an interval with an end in the code of the value itself is compared in the clause table.
* `walk="shorter"`: where fewer intervals hold a value than do not, the area between the lines is walked and its clauses
  are kept; the paper always walks the other two (`walk="unmatched"`).
* Algorithm 4 gives the direct method all attributes from the first one on where it is cheaper. Here each attribute is
  decided in turn, with measured weights for marks and checks; triangles are still walked before the direct checks.
* Events may lack attributes: one bitset per attribute says who does not ask for it, and an absent one costs an AND.
* The direct method reads a column of codes per attribute. Attributes that few clauses ask for have no column: what
  they leave open is looked up in the clause table, for all of them at once.
* Clauses are cut into blocks of up to 65,536, each with its own triangles, so that the bits in work stay in the
  first-level cache. An attribute with few intervals per block has fewer rows than `tau`.
* A new clause is compared by itself until there are enough of them to rewrite a block's triangles. A deleted clause is
  out of all matches at once, and out of the triangles when its block is next rewritten.
"""

from __future__ import annotations

from eventsieve.matchers.hem.matcher import Hem

__all__ = ["Hem"]
