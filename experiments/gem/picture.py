"""Draw the two pictures of the GEM-Tree page: a triangle with one value, and a small tree taken from a real index.

    python experiments/gem/picture.py docs/matchers/img

writes gem-tree.svg and gem-tree-index.svg. The tree is read from the arrays of an index of forty subscriptions.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import eventsieve as es
from eventsieve.matchers.gem_tree import GemTree
from eventsieve.matchers.gem_tree.layout import ATTRIBUTE, BRANCHES, FIRST, SIZE

STYLE = """<style>
  .title { font-size: 15px; font-weight: 600; fill: #0f172a }
  .label { font-size: 13px; fill: #475569 }
  .small { font-size: 11px; fill: #475569; text-anchor: middle }
  .middle { text-anchor: middle }
  .cell { fill: #ffffff; stroke: #94a3b8; stroke-width: 1 }
  .fails { fill: #fde2e2; stroke: #d46a6a; stroke-width: 1 }
  .holds { fill: #dcf3e4; stroke: #4f9f6d; stroke-width: 1 }
  .compare { fill: #fff3d6; stroke: #d9a441; stroke-width: 1 }
  .filled { fill: #c7dbf5; stroke: #1e4f91; stroke-width: 1 }
  .node { fill: #f1f5f9; stroke: #475569; stroke-width: 1.2 }
  .link { stroke: #94a3b8; stroke-width: 1; fill: none }
  .value { stroke: #1e4f91; stroke-width: 2; stroke-dasharray: 5 4 }
  .value-name { font-size: 13px; font-weight: 600; fill: #1e4f91; text-anchor: middle }
</style>"""
CELL = 9
"""Side of a cell in the drawing of a tree."""
NODE_WIDTH, NODE_HEIGHT, GAP = 34, 22, 8


def svg(width: float, height: float, title: str, description: str, body: list[str]) -> str:
    """Return a whole picture."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" role="img"',
            '     aria-labelledby="title description"',
            "     font-family=\"-apple-system, 'Segoe UI', Helvetica, Arial, sans-serif\">",
            f'<title id="title">{title}</title>',
            f'<desc id="description">{description}</desc>',
            STYLE,
            f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>',
            *body,
            "</svg>\n",
        ]
    )


def text(x: float, y: float, kind: str, words: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}">{words}</text>'


def box(x: float, y: float, width: float, height: float, kind: str, rounding: int = 0) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{rounding}" class="{kind}"/>'


def triangle_picture(n_cells: int = 8, own: int = 3) -> str:
    """Draw a triangle with the cells that a value visits, by what they leave to check."""
    side, left, bottom = 36, 110, 380
    body = [text(left, 34, "title", "one attribute: an interval is a point, a value visits a corner")]
    for row in range(n_cells):
        for column in range(row + 1):
            kind = "fails"
            if row >= own >= column:
                kind = "compare" if own in (row, column) else "holds"
            body.append(box(left + column * side, bottom - (row + 1) * side, side, side, kind))
        body.append(text(left - 12, bottom - row * side - 13, "small", str(row)))
        body.append(text(left + row * side + side / 2, bottom + 16, "small", str(row)))
    body.append(text(left + n_cells * side / 2, bottom + 38, "label middle", "column: the cell of the low end"))
    body.append(
        f'<text class="label middle" transform="translate({left - 36},{bottom - n_cells * side / 2}) rotate(-90)">'
        "row: the cell of the high end</text>"
    )
    x, y = left + (own + 0.6) * side, bottom - (own + 0.6) * side
    body.append(f'<line class="value" x1="{x}" y1="{bottom}" x2="{x}" y2="{bottom - n_cells * side - 12}"/>')
    body.append(f'<line class="value" x1="{left}" y1="{y}" x2="{left + n_cells * side}" y2="{y}"/>')
    body.append(text(x, bottom - n_cells * side - 18, "value-name", "value"))
    legend = [
        ("holds", "begins below and ends above: holds, no check"),
        ("compare", "its column: check the low end; its row: the high end"),
        ("fails", "begins above, or ends below: not visited"),
    ]
    for line, (kind, words) in enumerate(legend):
        y = 120 + 34 * line
        body += [box(440, y, 18, 18, kind), text(468, y + 14, "label", words)]
    note = ["every cell in use leads to an attribute node:", "a bucket of subscriptions, and more triangles"]
    body += [text(440, 250 + 20 * line, "label", words) for line, words in enumerate(note)]
    description = (
        "Cells up and left of a value hold whole, those in its row and column are checked, the others are not visited."
    )
    return svg(860, 430, "A triangle of GEM-Tree", description, body)


@dataclass
class Drawn:
    """An attribute node with its triangles, and the width its drawing takes."""

    size: int
    triangles: list[tuple[int, list[tuple[int, Drawn]]]] = field(default_factory=list)

    def width(self, n_cells: int) -> float:
        below = [self.triangle_width(cells, n_cells) for _, cells in self.triangles]
        return max(NODE_WIDTH, sum(below) + GAP * (len(below) - 1))

    def levels(self) -> int:
        """Count the triangles on the longest way down; finer ones count, unlike in the index's own depth."""
        return max((1 + child.levels() for _, cells in self.triangles for _, child in cells), default=0)

    @staticmethod
    def triangle_width(cells: list[tuple[int, Drawn]], n_cells: int) -> float:
        below = sum(child.width(n_cells) for _, child in cells) + GAP * (len(cells) - 1)
        return max(n_cells * CELL + 2 * GAP, below)


def read_tree(matcher: GemTree, node: int = 0) -> Drawn:
    """Read a node and all below it from the arrays of a matcher."""
    tree = matcher._tree
    drawn = Drawn(int(tree.node[node, SIZE]))
    first = tree.node[node, FIRST]
    for b in range(first, first + tree.node[node, BRANCHES]):
        cells = tree.cell[tree.branch_triangle[b]]
        children = [(int(cell), read_tree(matcher, int(cells[cell]))) for cell in np.flatnonzero(cells >= 0)]
        assert all(tree.node[cells[cell], ATTRIBUTE] == tree.branch_attribute[b] for cell, _ in children)
        drawn.triangles.append((int(tree.branch_attribute[b]), children))
    return drawn


def draw_node(node: Drawn, left: float, top: float, n_cells: int, names: list[str], out: list[str]) -> float:
    """Draw a node and all below it; return the x of its middle."""
    middle = left + node.width(n_cells) / 2
    triangle_top = top + NODE_HEIGHT + 34
    at = left
    for attribute, cells in node.triangles:
        width = Drawn.triangle_width(cells, n_cells)
        corner = at + width / 2 - n_cells * CELL / 2
        bottom = triangle_top + n_cells * CELL
        end = corner + n_cells * CELL / 2
        out.append(f'<path class="link" d="M{middle:.1f},{top + NODE_HEIGHT} L{end:.1f},{triangle_top}"/>')
        filled = {cell for cell, _ in cells}
        below = at + (width - sum(c.width(n_cells) for _, c in cells) - GAP * (len(cells) - 1)) / 2
        for row in range(n_cells):
            for column in range(row + 1):
                kind = "filled" if row * (row + 1) // 2 + column in filled else "cell"
                out.append(box(corner + column * CELL, bottom - (row + 1) * CELL, CELL, CELL, kind))
        out.append(text(corner + n_cells * CELL, triangle_top - 6, "small", names[attribute]))
        for cell, child in cells:
            row = int((np.sqrt(8 * cell + 1) - 1) / 2)
            column = cell - row * (row + 1) // 2
            child_middle = draw_node(child, below, bottom + 34, n_cells, names, out)
            x, y = corner + (column + 0.5) * CELL, bottom - (row + 0.5) * CELL
            out.append(f'<path class="link" d="M{x:.1f},{y:.1f} L{child_middle:.1f},{bottom + 34}"/>')
            below += child.width(n_cells) + GAP
        at += width + GAP
    out.append(box(middle - NODE_WIDTH / 2, top, NODE_WIDTH, NODE_HEIGHT, "node", 5))
    out.append(text(middle, top + 15, "small", str(node.size)))
    return middle


def tree_picture() -> str:
    """Draw the tree of forty subscriptions to stock prices."""
    rng = np.random.default_rng(4)
    names = ["price", "volume", "change"]
    subscriptions = es.Subscriptions(es.Schema({name: es.Float(0, 100) for name in names}))
    for number in range(40):
        chosen = sorted(rng.permutation(3)[: rng.integers(1, 4)])
        low = rng.integers(0, 80, 3)
        width = rng.choice([5, 15, 40], 3)
        terms = [f"{names[a]} BETWEEN {low[a]} AND {min(100, low[a] + width[a])}" for a in chosen]
        subscriptions.add(f"s{number}", " AND ".join(terms))
    matcher = es.build(subscriptions, matcher="gem-tree", cells=4, bucket=4, minimum=3).matcher
    assert isinstance(matcher, GemTree)
    root = read_tree(matcher)
    body: list[str] = []
    draw_node(root, 20, 52, 4, names, body)
    body.append(text(20, 26, "title", "forty subscriptions: 4 cells a side, buckets of 4, at least 3 to divide"))
    height = 52 + root.levels() * (NODE_HEIGHT + 68 + 4 * CELL) + NODE_HEIGHT + 44
    body.append(
        text(20, height - 12, "label", "a box is a bucket with its number of subscriptions; blue cells are in use")
    )
    description = (
        "Attribute nodes as boxes with their bucket sizes, triangles between them, drawn from the index itself."
    )
    return svg(max(680.0, root.width(4) + 40), height, "A small GEM-Tree", description, body)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    (folder / "gem-tree.svg").write_text(triangle_picture(), encoding="utf-8")
    (folder / "gem-tree-index.svg").write_text(tree_picture(), encoding="utf-8")


if __name__ == "__main__":
    main()
