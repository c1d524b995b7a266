"""Report: the look of a figure: colours, markers, names next to lines."""

from __future__ import annotations

import io
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import matplotlib.figure
import numpy as np
from sklearn.isotonic import isotonic_regression

from supquant_lab.paper.results import OURS, REFERENCES

if TYPE_CHECKING:
    from supquant_lab.paper.results import Series

PALETTE = {
    "ink": "#1c1e21",
    "faint": "#667077",
    "line": "#e2e2de",
    "card": "#fefefe",
    "ours": "#2456c5",
    "kin": "#6f93e6",
    "quantizer": "#d55e00",
    "hashing": "#00876c",
    "classifier": "#8a3fa0",
    "reference": "#7a8088",
}
"""Colours by meaning; colour-blind readers can distinguish them. The page has another set for dark screens."""

_FAMILIES = {
    "quantizer": ("cq", "pq", "opq"),
    "hashing": ("sdh", "sdh-linear", "ksh", "fasthash", "cca-itq", "ssh", "mlh", "bre"),
    "classifier": ("classifier", "classifier-bits"),
    "kin": ("sq", "sq-triplet", "sq-no-transform"),
}
_MARKERS = "osD^v<>ph"
WIDTH, HEIGHT = 4.8, 4.4
"""Inches of a figure. It fits a phone, and two of them fit side by side on a screen."""

_NAMESPACES = {"": "http://www.w3.org/2000/svg", "xlink": "http://www.w3.org/1999/xlink"}
for _prefix, _uri in _NAMESPACES.items():
    ET.register_namespace(_prefix, _uri)


@dataclass(frozen=True)
class Figure:
    """A drawn figure: its name, which is also that of its file, what it shows in words, and the drawing."""

    name: str
    alt: str
    svg: str

    def inline(self) -> str:
        """Return the SVG for a page: the page sets its width and colours, and `alt` describes it. No two figures share an id."""
        root = ET.fromstring(self.svg)
        root.attrib = {"role": "img", "aria-label": self.alt, "viewBox": root.attrib["viewBox"]}
        svg = ET.tostring(root, encoding="unicode")
        for meaning, colour in PALETTE.items():
            svg = svg.replace(colour, f"var(--{meaning})")
        return svg


@dataclass(frozen=True)
class Line:
    """One series in a panel: its points, and its name there."""

    series: Series
    x: Sequence[float]
    y: Sequence[float]
    name: str = ""

    @property
    def label(self) -> str:
        """The name, or the short one of the series."""
        return self.name or self.series.short


@dataclass(frozen=True)
class Style:
    """The look of a line."""

    colour: str
    marker: str
    dashes: str
    width: float


def style(series: Series) -> Style:
    """Return the look of a series: the colour tells the family, the marker the method; ours has the thickest line.

    Examples
    --------
    >>> from supquant_lab.paper.results import Series
    >>> style(Series("sq")).colour == PALETTE["ours"], style(Series("euclidean")).dashes
    (True, ':')
    """
    if series in OURS:
        return Style(PALETTE["ours"], "o", "--" if series.ranking else "-", 2.6)
    if series.method in REFERENCES:
        return Style(PALETTE["reference"], ".", ":", 1.6)
    for family, methods in _FAMILIES.items():
        if series.method in methods:
            marker = _MARKERS[methods.index(series.method) % len(_MARKERS)]
            return Style(PALETTE[family], marker, "--" if series.ranking else "-", 1.2)
    return Style(PALETTE["reference"], "x", "-", 1.2)


def draw(name: str, alt: str, paint: Any, *, height: float = HEIGHT) -> Figure:
    """Return a figure of one panel, which `paint(figure, axes)` draws.

    The same input gives the same bytes: there are no dates, and ids depend on the name alone.
    """
    with matplotlib.rc_context(
        {
            **matplotlib.rcParamsDefault,
            "backend": "agg",
            "svg.hashsalt": name,
            "svg.fonttype": "none",
            "font.sans-serif": ["DejaVu Sans", "Verdana"],
            "font.size": 8.5,
            "axes.edgecolor": PALETTE["faint"],
            "axes.labelcolor": PALETTE["ink"],
            "axes.titlesize": 9.5,
            "axes.titleweight": "bold",
            "axes.titlelocation": "left",
            "axes.titlecolor": PALETTE["ink"],
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.facecolor": "none",
            "figure.facecolor": PALETTE["card"],
            "text.color": PALETTE["ink"],
            "xtick.color": PALETTE["faint"],
            "ytick.color": PALETTE["faint"],
            "grid.color": PALETTE["line"],
        }
    ):
        figure = matplotlib.figure.Figure(figsize=(WIDTH, height))
        paint(figure, figure.add_axes((0.13, 0.4 / height, 0.55, (height - 0.75) / height)))
        svg = io.StringIO()
        figure.savefig(svg, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    return Figure(name, alt, _without_numbered_ids(svg.getvalue()))


def _without_numbered_ids(svg: str) -> str:
    """Return a drawing without indentation, and with no ids but those of markers and clips, which the name of the figure decides.

    Matplotlib numbers its groups, and the groups of the next figure have the same numbers.
    """
    root = ET.fromstring(svg)
    for element in root.iter():
        element.text, element.tail = (
            part if part and part.strip() else None for part in (element.text, element.tail)
        )
        if f"#{element.get('id')}" not in svg:
            element.attrib.pop("id", None)
    return ET.tostring(root, encoding="unicode") + "\n"


def draw_lines(
    name: str,
    alt: str,
    lines: Sequence[Line],
    *,
    title: str,
    x_label: str,
    y_label: str,
    x_ticks: Mapping[float, str] | None = None,
    x_log: bool = False,
    y_log: bool = False,
    markers: bool = True,
    point_labels: Mapping[tuple[Series, float], str] | None = None,
) -> Figure:
    """Return a figure of lines, each with its name next to its right end, ours on top."""

    def paint(_figure: Any, axes: Any) -> None:
        axes.set_title(title, fontsize=min(9.5, 9.5 * 48 / len(title)))
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        if x_log:
            axes.set_xscale("log")
        if y_log:
            axes.set_yscale("log")
        for line in lines:
            look = style(line.series)
            axes.plot(
                line.x,
                line.y,
                color=look.colour,
                marker=look.marker if markers else "",
                linestyle=look.dashes,
                linewidth=look.width,
                markersize=5 if line.series in OURS else 3.6,
                markerfacecolor=PALETTE["card"] if line.series.ranking else look.colour,
                zorder=4 if line.series in OURS else 3,
                clip_on=False,
            )
        for (series, x), text in (point_labels or {}).items():
            y = next(line.y[list(line.x).index(x)] for line in lines if line.series == series)
            axes.annotate(
                text,
                (x, y),
                (0, 6),
                textcoords="offset points",
                ha="center",
                fontsize=7,
                color=style(series).colour,
            )
        if x_ticks:
            axes.set_xticks(list(x_ticks), list(x_ticks.values()))
            axes.minorticks_off()
        axes.grid(axis="y", linewidth=0.8)
        axes.set_axisbelow(True)
        _name_lines(axes, lines)

    return draw(name, alt, paint)


def spread_labels(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Return sorted positions, moved as little as possible so that neighbours are a gap apart, between two bounds.

    Examples
    --------
    >>> spread_labels([0.5, 0.5, 0.9], 0.1, 0.0, 1.0)
    [0.45, 0.55, 0.9]
    """
    steps = gap * np.arange(len(wanted))
    room = max(high - low - gap * (len(wanted) - 1), 0.0)
    moved = isotonic_regression(np.asarray(wanted) - steps, y_min=low, y_max=low + room)
    return [round(float(place), 6) for place in moved + steps]


def _name_lines(axes: Any, lines: Sequence[Line]) -> None:
    """Write the names to the right of the panel, each joined to the end of its line; the panel gets the other room."""
    size = 8.0 if len(lines) <= 20 else 7.2
    place = axes.get_position()
    room = (0.62 * size * max(len(line.label) for line in lines) / 72 + 0.3) / WIDTH
    axes.set_position((place.x0, place.y0, 1 - room - place.x0, place.height))
    axes.autoscale_view()
    to_panel = axes.transData + axes.transAxes.inverted()
    ends = sorted(
        ((*to_panel.transform((line.x[-1], line.y[-1])), line) for line in lines),
        key=lambda end: (end[1], end[2].series.order),
    )
    gap = 1.28 * size / (72 * place.height * axes.figure.get_figheight())
    heights = spread_labels([y for _, y, _ in ends], gap, -0.06, 0.99)
    for (x, y, line), height in zip(ends, heights, strict=True):
        look = style(line.series)
        axes.plot(
            (x, 1.03, 1.055),
            (y, height, height),
            color=look.colour,
            linewidth=0.5,
            alpha=0.55,
            transform=axes.transAxes,
            clip_on=False,
            zorder=2,
        )
        axes.text(
            1.065,
            height,
            line.label,
            color=look.colour,
            fontsize=size,
            fontweight="bold" if line.series in OURS else "normal",
            va="center",
            transform=axes.transAxes,
        )
