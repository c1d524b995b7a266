"""Report: SVG drawings of matplotlib, made smaller for files and adapted for pages."""

from __future__ import annotations

import re
from collections import Counter
from html import escape
from itertools import product
from string import ascii_lowercase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

DECIMALS = 2
"""Coordinates keep this many decimals; the unit is a point, 1/72 inch."""

_RULE = r"\.([a-z]+)\{([^}]*)\}"
"""A class and its declaration."""

_FONTS = "font-family:'DejaVu Sans',Verdana,sans-serif"


def shrink(svg: str) -> str:
    r"""Return a drawing without the parts that nobody sees: head, unused ids, spaces, decimals, repeated styles.

    Ids are numbered, and a declaration of a style, such as ``fill:none``, is written once, as a class of one or two letters.

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
    body = body.replace("xlink:href", "href").replace(' xmlns:xlink="http://www.w3.org/1999/xlink"', "")
    body = _with_one_style(_without_bare_groups(_with_numbered_ids(_with_shared_markers(body))))
    return _with_classes(body).strip() + "\n"


def inline(svg: str, name: str, alt: str, colours: Mapping[str, str]) -> str:
    """Return a small drawing for a page: the page sets its width and colours, and `alt` describes it.

    A page has one name space for the ids and classes of all its drawings. So ids begin with `name` here, and classes become
    styles again.

    Examples
    --------
    >>> small = '<svg width="3pt"><style>.a{fill:#fefefe}</style><path id="i0" class="a"/></svg>'
    >>> inline(small, "square", "A square", {"card": "#fefefe"})
    '<svg role="img" aria-label="A square"><style></style><path id="square-i0" style="fill:var(--card)"/></svg>'
    """
    declarations = dict(re.findall(_RULE, svg))
    svg = re.sub(_RULE, "", svg)
    svg = re.sub(
        r' class="([^"]*)"',
        lambda found: f' style="{";".join(declarations[each] for each in found.group(1).split())}"',
        svg,
    )
    svg = re.sub(r'( id="|"#|\(#)(i\d+)', rf"\g<1>{name}-\g<2>", svg)
    for size in ("width", "height"):
        svg = re.sub(rf'(<svg[^>]*?) {size}="[^"]*"', r"\1", svg, count=1)
    svg = svg.replace("<svg", f'<svg role="img" aria-label="{escape(alt)}"', 1)
    for meaning, colour in colours.items():
        svg = svg.replace(colour, f"var(--{meaning})")
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


def _with_shared_markers(body: str) -> str:
    """Keep one of the markers that differ in colour alone. They inherit the colour from where they are used."""
    first: dict[tuple[str, str], str] = {}
    kept: dict[str, str] = {}

    def keep(found: re.Match[str]) -> str:
        name, shape, style = found.groups()
        others = ";".join(each for each in _declarations(style) if not each.startswith("stroke:"))
        look = f' style="{others}"' if others else ""
        kept[name] = first.setdefault((shape, look), name)
        return f'<defs><path id="{name}" d="{shape}"{look}/></defs>' if kept[name] == name else ""

    body = re.sub(r'<defs><path id="([^"]*)" d="([^"]*)" style="([^"]*)"/></defs>', keep, body)
    return re.sub(r'"#([^"]*)"', lambda found: f'"#{kept.get(found[1], found[1])}"', body)


def _with_numbered_ids(body: str) -> str:
    """Remove the ids that nothing refers to, and replace the others by numbers."""
    used = dict.fromkeys(re.findall(r"#([\w.-]+)", body))
    names = [each for each in re.findall(r' id="([^"]*)"', body) if each in used]
    numbered = {name: f"i{number}" for number, name in enumerate(names)}
    body = re.sub(
        r' id="([^"]*)"', lambda found: f' id="{numbered[found[1]]}"' if found[1] in numbered else "", body
    )
    return re.sub(r'("#|\(#)([\w.-]+)', lambda found: found[1] + numbered[found[2]], body)


def _with_classes(body: str) -> str:
    """Replace styles by classes, one for each declaration; the most frequent ones have the shortest names."""
    styles = re.findall(r' style="([^"]*)"', body)
    frequent = Counter(declaration for style in styles for declaration in _declarations(style)).most_common()
    letters = (*ascii_lowercase, *map("".join, product(ascii_lowercase, repeat=2)))
    names = {declaration: name for (declaration, _), name in zip(frequent, letters, strict=False)}
    body = re.sub(
        r' style="([^"]*)"',
        lambda style: f' class="{" ".join(names[each] for each in _declarations(style[1]))}"',
        body,
    )
    rules = "".join(f".{name}{{{declaration}}}" for declaration, name in names.items())
    return body.replace("</style>", f"{rules}</style>", 1)


def _declarations(style: str) -> list[str]:
    return [declaration for declaration in style.split(";") if declaration]
