"""OP-Index: clauses filed by their rarest attribute, their predicates by operator in sorted lists, and counted.

Zhang, Chan, Tan: "An Efficient Publish/Subscribe Index for E-Commerce Databases" (OpIndex), PVLDB 2014; here by its
ideas, as a counterpart of GEM-Tree.

A clause belongs to the block of its pivot, the rarest of its attributes. The predicates of a block stand in lists by
attribute and operator, sorted by value: = for single values, >= for low ends, <= for high ends. An event visits the
blocks whose pivot it has. One search per list gives the predicates that hold, as one run of entries; each lowers its
clause's counter of unmet predicates, and a clause at 0 matches. A signature of a few bits per block and operator says
which segments of the attributes have lists at all, so that others are not looked for.

Differences from the paper:

* An interval is one predicate, not two: its low end lowers the counter if it is at or below the value, and its high end
  raises it again if it is below the value. Predicates without a low end have one at -infinity.
* With `count="fewer"`, the default, a block in which fewer ends fail than hold counts the failures instead: its
  counters then begin as if all intervals held. `count="satisfied"` is the paper's way. Wide predicates nearly all hold,
  and then this is several times faster.
* A pivot with more than 32,768 clauses has several blocks: counters of one byte stay in the first-level cache, and an
  entry needs two bytes for its clause.
* Segments are the attributes with the same remainder by `signature_bits`.
* Frequencies change; a clause stays with the pivot it had when it was filed.
"""

from __future__ import annotations

from eventsieve.matchers.op_index.matcher import OpIndex

__all__ = ["OpIndex"]
