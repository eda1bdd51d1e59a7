"""The H-Tree as flat arrays, and the compiled code that files clauses, takes them out and divides buckets.

Kernels do not allocate what outlives them. One that runs out of room leaves everything as it was, writes what it needs
to `work.need`, and is called again.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eventsieve._kernels.compiler import inlined, kernel
from eventsieve._kernels.positions import cell_of_code, code_of
from eventsieve.model.columns import ClauseTable
from eventsieve.model.transform import TransformTable

HEADS: Final = 3
"""Rounded predicates in an entry. At the paper's widths each lets a tenth through: three leave one in a thousand."""
NODES, BUCKETS, ENTRIES, LIVE, CHOSEN_FOR = range(5)
"""Places in `Tree.used`: what is in use, clauses filed, and clauses there were when the attributes were chosen."""


class Shape(NamedTuple):
    """What is decided before clauses are filed: the levels, the cells, the limits, the transform."""

    level_of_attribute: NDArray[np.int32]  # (n_attributes,); -1 where the attribute is not indexed
    n_levels: int
    n_cells: int  # segments per domain, and branches per node: n_cells - 1 cells, then the no-predicate cell
    copies: int
    bucket: int
    transform: TransformTable


class Tree(NamedTuple):
    """Nodes, buckets and entries, with spare room behind their end.

    A link is 0 for nothing, a node's number, or ~b for bucket b. Node t owns the links from t * n_cells on. Node 0 is a
    stand: its first link leads to the root. The entries of a bucket lie side by side, those of a clause are chained. A
    clause's path has one number per level: the first of its cells + 256 * their count; its cells lie two apart.
    """

    link: NDArray[np.int32]
    bucket_start: NDArray[np.int32]
    bucket_size: NDArray[np.int32]
    bucket_room: NDArray[np.int32]
    entry: NDArray[np.uint32]  # (room, 1 + HEADS): the slot, then attribute << 16 | low << 8 | high - low, in 1/256
    bucket_of_entry: NDArray[np.int32]
    next_copy: NDArray[np.int32]  # the clause's next entry, or -1
    first_copy: NDArray[np.int32]  # by slot: the clause's first entry, or -1
    path: NDArray[np.uint16]  # by slot, n_levels each
    used: NDArray[np.int64]


class Work(NamedTuple):
    """Links to buckets that are to be divided, as a stack, and the entries there was no room for."""

    link: NDArray[np.int64]
    depth: NDArray[np.int32]
    waiting: NDArray[np.int64]  # (1,): how many
    need: NDArray[np.int64]  # (1,); 0 when nothing is needed


def new_work(shape: Shape) -> Work:
    """Return an empty stack: going depth first, each level leaves at most one node's links on it."""
    room = (shape.n_levels + 1) * shape.n_cells + shape.copies
    return Work(np.zeros(room, np.int64), np.zeros(room, np.int32), np.zeros(1, np.int64), np.zeros(1, np.int64))


@inlined
def _cells_of(low: int, high: int, n_cells: int) -> tuple[int, int]:
    """Return the first cell and the number of cells, two apart, of a predicate with these codes.

    Each segment the predicate touches lies in exactly one of its cells, so an event meets exactly one of its entries.
    """
    first, last = cell_of_code(low, n_cells), cell_of_code(high, n_cells)
    n_segments = last - first + 1
    if n_segments == 1:
        # Two cells hold it; the nearer one, as in the paper, keeps them evenly filled.
        left = cell_of_code(low + high, n_cells) == 2 * first
        return max(0, min(first - left, n_cells - 2)), 1
    if n_segments == 2:
        return first, 1
    if n_segments == n_cells:
        return n_cells - 1, 1
    # An odd number of segments needs one more from beyond an end, and there is none beyond the last.
    return first - (n_segments & 1 and last == n_cells - 1), (n_segments + 1) >> 1


@kernel
def write_paths(
    clauses: ClauseTable,
    shape: Shape,
    slots: NDArray[np.int32],
    out_path: NDArray[np.uint16],
    out_heads: NDArray[np.uint32],
) -> None:
    """Write the path of each clause, and the three of its predicates that rule out most of what the path leaves."""
    n_levels, n_cells = shape.n_levels, shape.n_cells
    low_of_level = np.empty(n_levels, np.int64)
    high_of_level = np.empty(n_levels, np.int64)
    passing = np.empty(HEADS, np.int64)
    # Asks attribute n_attributes, which every event is given the value 0 of, for 0 to 255.
    no_check = np.uint32((shape.level_of_attribute.shape[0] << 16) | 255)
    for i in range(slots.shape[0]):
        s = slots[i]
        low_of_level[:] = -1
        passing[:] = 1 << 16
        out_heads[i, :] = no_check
        for p in range(clauses.start[s], clauses.stop[s]):
            a = clauses.attribute[p]
            low = code_of(shape.transform, a, clauses.low[p])
            high = code_of(shape.transform, a, clauses.high[p])
            width = (high >> 8) - (low >> 8)
            share = width + 1
            level = shape.level_of_attribute[a]
            if level >= 0:
                low_of_level[level], high_of_level[level] = low, high
                # The tree has already ruled out what lies outside two of n_cells segments.
                share = min(256, share * n_cells >> 1)
            rank = HEADS
            while rank > 0 and share < passing[rank - 1]:
                rank -= 1
                if rank < HEADS - 1:
                    passing[rank + 1], out_heads[i, rank + 1] = passing[rank], out_heads[i, rank]
            if rank < HEADS:
                passing[rank], out_heads[i, rank] = share, np.uint32((a << 16) | ((low >> 8) << 8) | width)
        copies = 1
        for level in range(n_levels):
            cell, count = n_cells - 1, 1
            if low_of_level[level] >= 0:
                wide_cell, wide_count = _cells_of(low_of_level[level], high_of_level[level], n_cells)
                if copies * wide_count <= shape.copies:
                    cell, count = wide_cell, wide_count
                    copies *= count
            out_path[s * n_levels + level] = cell | (count << 8)


@inlined
def _move_in_chain(tree: Tree, s: int, old: int, new: int) -> None:
    """Let the chain of a clause lead to place `new` where it led to `old`."""
    tree.next_copy[new] = tree.next_copy[old]
    if tree.first_copy[s] == old:
        tree.first_copy[s] = new
    else:
        before = tree.first_copy[s]
        while tree.next_copy[before] != old:
            before = tree.next_copy[before]
        tree.next_copy[before] = new


@inlined
def _copy_entry(source: NDArray[np.uint32], old: int, new: int, out_entry: NDArray[np.uint32]) -> None:
    for word in range(1 + HEADS):
        out_entry[new, word] = source[old, word]


@kernel
def divide(tree: Tree, shape: Shape, work: Work) -> None:
    """Divide the buckets on the stack by the attribute of their level, and so on until none is left to divide."""
    n_cells, n_levels, used = shape.n_cells, shape.n_levels, tree.used
    size_of_cell = np.empty(n_cells, np.int64)
    while work.waiting[0] > 0:
        top = work.waiting[0] - 1
        at, depth = work.link[top], work.depth[top]
        parent = ~tree.link[at]
        start = tree.bucket_start[parent]
        stop = start + tree.bucket_size[parent]
        size_of_cell[:] = 0
        for old in range(start, stop):
            step = np.int64(tree.path[tree.entry[old, 0] * n_levels + depth])
            for j in range(step >> 8):
                size_of_cell[(step & 255) + 2 * j] += 1
        total = size_of_cell.sum()
        if (
            used[ENTRIES] + total > tree.next_copy.shape[0]
            or used[BUCKETS] + n_cells > tree.bucket_start.shape[0]
            or (used[NODES] + 1) * n_cells > tree.link.shape[0]
        ):
            work.need[0] = max(total, 1)
            return
        work.waiting[0] = top
        links = used[NODES] * n_cells
        tree.link[at] = used[NODES]
        used[NODES] += 1
        bucket = parent
        for cell in range(n_cells):
            size = size_of_cell[cell]
            tree.link[links + cell] = 0
            if size == 0:
                continue
            tree.link[links + cell] = ~bucket
            tree.bucket_start[bucket] = used[ENTRIES]
            tree.bucket_size[bucket] = 0
            tree.bucket_room[bucket] = size
            used[ENTRIES] += size
            if size > shape.bucket and depth + 1 < n_levels:
                work.link[work.waiting[0]], work.depth[work.waiting[0]] = links + cell, depth + 1
                work.waiting[0] += 1
            bucket = used[BUCKETS]  # the parent's number serves its first child, the others get new ones
            used[BUCKETS] += 1
        used[BUCKETS] -= 1
        for old in range(start, stop):
            s = tree.entry[old, 0]
            step = np.int64(tree.path[s * n_levels + depth])
            for j in range(step >> 8):
                child = ~tree.link[links + (step & 255) + 2 * j]
                new = tree.bucket_start[child] + tree.bucket_size[child]
                tree.bucket_size[child] += 1
                tree.bucket_of_entry[new] = child
                _copy_entry(tree.entry, old, new, tree.entry)
                if j == 0:
                    _move_in_chain(tree, s, old, new)
                else:
                    tree.next_copy[new] = tree.first_copy[s]
                    tree.first_copy[s] = new


@kernel
def insert(
    tree: Tree, shape: Shape, slots: NDArray[np.int32], heads: NDArray[np.uint32], first: int, work: Work
) -> int:
    """File clauses from slots[first] on, until one lacks room or fills a bucket that is then to be divided.

    Return the first that is not filed.
    """
    n_cells, n_levels, used = shape.n_cells, shape.n_levels, tree.used
    pending = np.empty(n_levels * n_cells + 1, np.int64)
    pending_depth = np.empty(n_levels * n_cells + 1, np.int64)
    found = np.empty(shape.copies, np.int64)
    found_depth = np.empty(shape.copies, np.int64)
    for i in range(first, slots.shape[0]):
        s = slots[i]
        n_found = need = 0
        pending[0] = pending_depth[0] = 0
        n_pending = 1
        while n_pending > 0:
            n_pending -= 1
            at, depth = pending[n_pending], pending_depth[n_pending]
            link = tree.link[at]
            if link > 0:
                step = np.int64(tree.path[s * n_levels + depth])
                for j in range(step >> 8):
                    pending[n_pending] = link * n_cells + (step & 255) + 2 * j
                    pending_depth[n_pending] = depth + 1
                    n_pending += 1
            else:
                found[n_found], found_depth[n_found] = at, depth
                n_found += 1
                need += _new_room(0 if link == 0 else tree.bucket_size[~link])
        if used[ENTRIES] + need > tree.next_copy.shape[0] or used[BUCKETS] + n_found > tree.bucket_start.shape[0]:
            work.need[0] = need
            return i
        tree.first_copy[s] = -1
        for j in range(n_found):
            bucket = _bucket_with_room(tree, found[j])
            new = tree.bucket_start[bucket] + tree.bucket_size[bucket]
            tree.bucket_size[bucket] += 1
            tree.bucket_of_entry[new] = bucket
            tree.entry[new, 0] = s
            for head in range(HEADS):
                tree.entry[new, 1 + head] = heads[i, head]
            tree.next_copy[new] = tree.first_copy[s]
            tree.first_copy[s] = new
            if tree.bucket_size[bucket] > shape.bucket and found_depth[j] < n_levels:
                work.link[work.waiting[0]], work.depth[work.waiting[0]] = found[j], found_depth[j]
                work.waiting[0] += 1
        used[LIVE] += 1
        if work.waiting[0] > 0:
            return i + 1
    return int(slots.shape[0])


@inlined
def _new_room(size: int) -> int:
    """Return the places of a bucket that has outgrown its old ones."""
    return size + (size >> 1) + 2


@kernel
def _bucket_with_room(tree: Tree, at: int) -> int:
    """Return the bucket a link leads to, made, or moved to a larger place, where it must be."""
    used = tree.used
    if tree.link[at] == 0:
        bucket = used[BUCKETS]
        used[BUCKETS] += 1
        tree.link[at] = ~bucket
        tree.bucket_start[bucket] = tree.bucket_size[bucket] = tree.bucket_room[bucket] = 0
    bucket = np.int64(~tree.link[at])
    size = tree.bucket_size[bucket]
    if size == tree.bucket_room[bucket]:
        start, room = used[ENTRIES], _new_room(size)
        used[ENTRIES] += room
        for i in range(size):
            old, new = tree.bucket_start[bucket] + i, start + i
            _copy_entry(tree.entry, old, new, tree.entry)
            tree.bucket_of_entry[new] = bucket
            _move_in_chain(tree, tree.entry[new, 0], old, new)
        tree.bucket_start[bucket] = start
        tree.bucket_room[bucket] = room
    return int(bucket)


@kernel
def delete(tree: Tree, slots: NDArray[np.int32]) -> None:
    """Take out every entry of these clauses; the last entry of a bucket fills the gap."""
    for s in slots:
        place = tree.first_copy[s]
        tree.used[LIVE] -= place >= 0
        tree.first_copy[s] = -1
        while place >= 0:
            following = tree.next_copy[place]
            bucket = tree.bucket_of_entry[place]
            tree.bucket_size[bucket] -= 1
            last = tree.bucket_start[bucket] + tree.bucket_size[bucket]
            if last != place:
                _copy_entry(tree.entry, last, place, tree.entry)
                _move_in_chain(tree, tree.entry[place, 0], last, place)
            place = following


@kernel
def lay_out(tree: Tree, shape: Shape, slack: int, moved: NDArray[np.int32], out_tree: Tree) -> None:
    """Copy all entries into `out_tree` in the order of the tree, so that buckets an event opens together lie close.

    Each bucket gets 1/slack of its size as spare room, none for slack = 0. The trees share all but their entries.
    """
    n_cells = shape.n_cells
    pending = np.empty((shape.n_levels + 1) * n_cells, np.int64)
    pending[0] = 0
    n_pending = 1
    end = 0
    while n_pending > 0:
        n_pending -= 1
        link = tree.link[pending[n_pending]]
        if link > 0:
            for cell in range(n_cells - 1, -1, -1):
                if tree.link[link * n_cells + cell] != 0:
                    pending[n_pending] = link * n_cells + cell
                    n_pending += 1
        elif link < 0:
            bucket = ~link
            old, size = tree.bucket_start[bucket], tree.bucket_size[bucket]
            for i in range(size):
                moved[old + i] = end + i
                _copy_entry(tree.entry, old + i, end + i, out_tree.entry)
                out_tree.bucket_of_entry[end + i] = bucket
            tree.bucket_start[bucket] = end
            tree.bucket_room[bucket] = size if slack == 0 else size + size // slack + 1
            end += tree.bucket_room[bucket]
    tree.used[ENTRIES] = end
    for s in range(tree.first_copy.shape[0]):
        old = tree.first_copy[s]
        if old >= 0:
            tree.first_copy[s] = moved[old]
        while old >= 0:
            following = tree.next_copy[old]
            out_tree.next_copy[moved[old]] = -1 if following < 0 else moved[following]
            old = following
