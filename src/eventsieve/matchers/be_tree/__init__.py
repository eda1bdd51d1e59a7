"""BE-Tree: clauses in the leaves of a tree that is cut by attribute and by halves of value ranges, in turns.

Sadoghi, Jacobsen: "BE-Tree: An Index Structure to Efficiently Match Boolean Expressions over High-dimensional Discrete
Space", SIGMOD 2011; here by its ideas, as a counterpart of GEM-Tree.

A leaf over its capacity is partitioned by an attribute: clauses with a predicate on it move to a new node (the paper's
p-node), which stands for the attribute's whole domain. A node over its capacity is clustered: a predicate that fits one
half of the node's range moves to the node of that half (c-node), and so on; wide and half-open predicates stay high.
What a node keeps is partitioned by another attribute again. An event goes to the partitions of the attributes that it
has, and in each down to the halves that hold its value. Leaves on the way are scanned.

Differences from the paper:

* The score that decides between attributes is the clause's own: how often a domain can be halved around its predicate,
  then how many clauses of the leaf have the attribute. The paper takes one attribute for the whole leaf, the best in
  sum, and repeats; then a clause with a single value on one attribute may be filed by a wide range on another.
* A node has its leaf, its halves and its partitions in one record of 64 bytes: p-nodes, c-nodes and their directories
  are one kind of node.
* Halving goes by positions of the value transform, so that any domain can be halved, and skewed values too.
* Leaves hold their clauses packed, and are scanned column by column (`_kernels.packed`).
* The paper's scores also learn from the matches of events. These do not: a match changes nothing.
"""

from __future__ import annotations

from eventsieve.matchers.be_tree.matcher import BETree

__all__ = ["BETree"]
