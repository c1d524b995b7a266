"""Report: SVG drawings of matplotlib, made smaller for files and adapted for pages."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

DECIMALS = 2
"""Coordinates keep this many decimals; the unit is a point, 1/72 inch."""

_FONTS = "font-family:'DejaVu Sans',Verdana,sans-serif"


def shrink(svg: str) -> str:
    r"""Return a drawing without the parts that nobody sees: head, unused ids, spaces, decimals, repeated fonts.

    Examples
    --------
    >>> shrink('<?xml?>\n<svg id="figure_1">\n <g>\n  <path d="M 0 1.2345 \nL 2 3 \n"/>\n </g>\n</svg>\n')
    '<svg><path d="M0 1.23L2 3"/></svg>\n'
    """
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", body, flags=re.DOTALL)
    body = re.sub(r">\s+<", "><", body)
    body = re.sub(r"<[^>]+>", _shrink_tag, body)
    body = body.replace("</style>", f"text{{{_FONTS}}}</style>", 1)
    used = set(re.findall(r"#([\w.-]+)", body))
    body = re.sub(r' id="([^"]*)"', lambda found: found.group(0) if found.group(1) in used else "", body)
    body = _with_one_style(_without_bare_groups(body))
    return body.strip() + "\n"


def inline(svg: str, alt: str, colours: Mapping[str, str]) -> str:
    """Return a drawing for a page: the page sets its width and colours, and `alt` describes it.

    Examples
    --------
    >>> inline('<svg width="3pt" height="2pt"><path style="fill:#fefefe"/></svg>', "A square", {"card": "#fefefe"})
    '<svg role="img" aria-label="A square"><path style="fill:var(--card)"/></svg>'
    """
    for size in ("width", "height"):
        svg = re.sub(rf'(<svg[^>]*?) {size}="[^"]*"', r"\1", svg, count=1)
    svg = svg.replace("<svg", f'<svg role="img" aria-label="{escape(alt)}"', 1)
    for name, colour in colours.items():
        svg = svg.replace(colour, f"var(--{name})")
    return svg


def _shrink_tag(found: re.Match[str]) -> str:
    """Return a shorter form of one tag. Text between tags, with the numbers that people read, stays as it is."""
    tag = re.sub(r"\s+", " ", found.group(0))
    tag = re.sub(r"-?\d+\.\d+", lambda number: f"{round(float(number.group(0)), DECIMALS):g}", tag)
    tag = re.sub(r' transform="rotate\(-?0 [^"]*\)"', "", tag)  # a turn by 0 degrees
    tag = re.sub(r" ?font-family: [^;\"]*;", "", tag)
    tag = re.sub(
        r' d="[^"]*"', lambda path: " d" + re.sub(r" ?([A-Za-z\"]) ?", r"\1", path.group(0)[2:]), tag
    )
    return re.sub(r'style="[^"]*"', lambda style: style.group(0).replace("; ", ";").replace(": ", ":"), tag)


def _without_bare_groups(body: str) -> str:
    """Replace groups without attributes by their contents, the innermost first."""
    bare = re.compile(r"<g>((?:(?!</?g\b).)*)</g>", flags=re.DOTALL)
    while True:
        body, count = bare.subn(r"\1", body)
        if not count:
            return body


def _with_one_style(body: str) -> str:
    """Write the style of markers that follow each other only once, on a group around them."""
    alike = re.compile(r'<use [^>]*?( style="[^"]*")/>(?:<use [^>]*?\1/>)+')
    return alike.sub(lambda run: f"<g{run.group(1)}>{run.group(0).replace(run.group(1), '')}</g>", body)
