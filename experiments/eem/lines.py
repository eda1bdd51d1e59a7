"""Line charts as SVG, one above the other, with no library: the pictures of the elastic experiments."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, log10
from typing import NamedTuple

WIDTH, HEIGHT, LEFT, TOP, BOTTOM, LEGEND = 760, 190, 70, 34, 26, 170
COLOURS = ("#1e4f91", "#c2410c", "#15803d", "#7c3aed")
STYLE = """<style>
  .title { font-size: 15px; font-weight: 600; fill: #0f172a }
  .name { font-size: 13px; font-weight: 600; fill: #0f172a }
  .small { font-size: 11px; fill: #475569 }
  .grid { stroke: #e2e8f0; stroke-width: 1 }
</style>"""


class Line(NamedTuple):
    name: str
    values: Sequence[float]


class Chart(NamedTuple):
    name: str
    x: Sequence[float]
    lines: Sequence[Line]
    log: bool = False
    """Show values by their orders of magnitude."""


def page(title: str, charts: Sequence[Chart]) -> str:
    """Return a picture of several charts."""
    total = WIDTH + LEGEND
    height = 40 + len(charts) * (TOP + HEIGHT + BOTTOM)
    body = [f'<text x="20" y="24" class="title">{title}</text>']
    for number, each in enumerate(charts):
        body += _drawn(each, 40 + number * (TOP + HEIGHT + BOTTOM))
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total} {height}" role="img" aria-labelledby="title"',
        "     font-family=\"-apple-system, 'Segoe UI', Helvetica, Arial, sans-serif\">",
        f'<title id="title">{title}</title>',
        STYLE,
        f'<rect width="{total}" height="{height}" fill="#ffffff"/>',
    ]
    return "\n".join([*head, *body, "</svg>\n"])


def _drawn(each: Chart, top: float) -> list[str]:
    low, high, marks = _scale(each)
    right, bottom = WIDTH - 10, top + TOP + HEIGHT

    def place(at: float, value: float) -> tuple[float, float]:
        share = (_shown(value, each.log, low) - low) / (high - low)
        return LEFT + (right - LEFT) * at / (each.x[-1] + 0.5), bottom - HEIGHT * share

    body = [f'<text x="{LEFT}" y="{top + TOP - 10:.0f}" class="name">{each.name}</text>']
    for mark in marks:
        y = place(0.0, mark)[1]
        body.append(f'<line x1="{LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>')
        body.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" class="small" text-anchor="end">{mark:g}</text>')
    for second in range(0, round(each.x[-1] + 0.5) + 1, 5):
        x = LEFT + (right - LEFT) * second / (each.x[-1] + 0.5)
        body.append(f'<text x="{x:.1f}" y="{bottom + 15:.0f}" class="small" text-anchor="middle">{second} s</text>')
    for number, line in enumerate(each.lines):
        points = " ".join("{:.1f},{:.1f}".format(*place(*pair)) for pair in zip(each.x, line.values, strict=True))
        colour = COLOURS[number % len(COLOURS)]
        body.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        y = top + TOP + 14 + 18 * number
        body.append(
            f'<line x1="{WIDTH}" x2="{WIDTH + 18}" y1="{y - 4}" y2="{y - 4}" stroke="{colour}" stroke-width="3"/>'
        )
        body.append(f'<text x="{WIDTH + 24}" y="{y}" class="small">{line.name}</text>')
    return body


def _scale(each: Chart) -> tuple[float, float, list[float]]:
    """Return the lowest and the highest place of a chart's values, and the values to mark."""
    values = [value for line in each.lines for value in line.values]
    if each.log:
        positive = [value for value in values if value > 0] or [1.0]
        low, high = floor(log10(min(positive))), ceil(log10(max(positive)))
        high = max(high, low + 1)
        return float(low), float(high), [10.0**power for power in range(low, high + 1)]
    most = max(values) or 1.0
    step = 10.0 ** floor(log10(most))
    step = next(each for each in (step / 5, step / 2, step, 2 * step) if most / each <= 6)
    top = step * ceil(most / step)
    return 0.0, top, [step * number for number in range(round(top / step) + 1)]


def _shown(value: float, log: bool, low: float) -> float:
    if not log:
        return value
    return log10(value) if value > 0 else low
