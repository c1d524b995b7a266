"""Report: the figures, drawn from cells and sweeps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from supquant_lab.paper.drawing import HEIGHT, Figure, Line, draw, draw_lines
from supquant_lab.paper.measurements import (
    best_point,
    point_text,
    sweep_axes,
    sweep_name,
    sweep_title,
    sweep_words,
)
from supquant_lab.paper.published import PENALTIES
from supquant_lab.paper.results import Results, title
from supquant_lab.paper.tables import write

if TYPE_CHECKING:
    from supquant_lab.paper.results import Cell, Mean, Series
    from supquant_lab.paper.standing import Codes

_CODES = {"learned": "codes learned with labels", "encoded": "codes from vectors alone"}


def map_figure(results: Results, dataset: str, protocol: str, codes: Codes) -> Figure | None:
    """Return the figure of MAP by code length; None if no cell has such codes."""
    where = {"dataset": dataset, "protocol": protocol}
    lengths = results.lengths(**where)
    means = {
        (series, float(place)): mean
        for series in results.series(**where)
        for place, bits in enumerate(lengths)
        if (mean := results.mean(f"map_{codes}", series, bits, **where))
    }
    lines, seeds = _over_shared_seeds(means)
    if not lines:
        return None
    heading = f"{title(dataset)}: {_CODES[codes]}" + ("" if protocol == "paper" else f", {protocol}")
    return draw_lines(
        f"map-{results.slug(dataset)}-{protocol}-{codes}",
        f"MAP by code length, {title(dataset)}, protocol {protocol}, {_CODES[codes]}, {seeds}. "
        + _order_at_end(lines, {place: f"{bits} bits" for place, bits in enumerate(lengths)}),
        lines,
        title=heading,
        x_label=f"bits of a code ({seeds})",
        y_label="mean average precision",
        x_ticks={place: str(bits) for place, bits in enumerate(lengths)},
    )


def time_figure(results: Results, timed: Results, dataset: str, codes: Codes) -> Figure | None:
    """Return the figure of MAP against milliseconds per query, with a point for each length; None if no cell has such codes."""
    where = {"dataset": dataset, "protocol": "paper"}
    heights, names = {}, {}
    for series in timed.series(**where):
        for bits in timed.lengths(series=series, **where):
            quality = timed.mean(f"map_{codes}", series, bits, **where)
            spent = timed.mean("query_ms/total", series, bits, **where)
            if quality is not None and spent is not None:
                heights[series, spent.value] = quality.value
                names[series, spent.value] = str(bits)
    lines = _lines(heights)
    if not lines:
        return None
    return draw_lines(
        f"time-{results.slug(dataset)}-{codes}",
        f"MAP against the time of a query, {title(dataset)}, {_CODES[codes]}. {_order_at_end(lines)}",
        lines,
        title=f"{title(dataset)}: query time, {codes} codes",
        x_label="milliseconds per query, one thread (points: bits)",
        y_label="mean average precision",
        point_labels=names,
    )


def precision_figure(results: Results, dataset: str, protocol: str, bits: int) -> Figure | None:
    """Return the figure of the precision among the first k items; None without cells."""
    lines, seeds = _curves(results, dataset, protocol, bits, "precision_at")
    if not lines:
        return None
    ranks = sorted({x for line in lines for x in line.x})
    return draw_lines(
        f"precision-{results.slug(dataset)}-{protocol}",
        f"Precision among the first k, {title(dataset)}, protocol {protocol}, {bits} bits. {_order_at_end(lines)}",
        lines,
        title=f"{title(dataset)}: precision at k, {protocol}, {bits} bits",
        x_label=f"first k items ({seeds})",
        y_label="precision",
        x_ticks={rank: f"{rank:,.0f}" for rank in ranks},
        x_log=True,
    )


def recall_figure(results: Results, dataset: str, protocol: str, bits: int) -> Figure | None:
    """Return the figure of precision by recall; None without cells."""
    lines, seeds = _curves(results, dataset, protocol, bits, "precision_at_recall")
    if not lines:
        return None
    return draw_lines(
        f"recall-{results.slug(dataset)}-{protocol}",
        f"Precision by recall, {title(dataset)}, protocol {protocol}, {bits} bits. {_order_at_end(lines)}",
        lines,
        title=f"{title(dataset)}: precision by recall, {protocol}, {bits} bits",
        x_label=f"recall ({seeds})",
        y_label="precision",
        markers=False,
    )


def convergence_figure(
    results: Results, cells: Sequence[Cell], by: Literal["iterations", "seconds"]
) -> Figure:
    """Return the figure of the objective of both solvers."""
    dataset = cells[0]["dataset"]
    label = {"iterations": "iteration", "seconds": "seconds of training"}[by]
    lines = []
    for cell in cells:
        seconds, objectives = zip(*cell["convergence"], strict=True)
        steps = range(1, len(objectives) + 1)
        solver = cell["parameters"].get("solver", "joint")
        lines.append(Line(cell.series, steps if by == "iterations" else seconds, objectives, name=solver))
    heights = [height for line in lines for height in line.y]
    ends = "; ".join(
        f"{line.label} ends at {write(line.y[-1], 'objective')} after {line.x[-1]:.4g}" for line in lines
    )
    return draw_lines(
        f"convergence-{results.slug(dataset)}-{by}",
        f"Objective by {label}, {title(dataset)}, {cells[0]['bits']} bits: {ends}.",
        lines,
        title=f"{title(dataset)}: objective by {label}",
        x_label=label,
        y_label="objective psi",
        y_log=min(heights) > 0 and max(heights) > 10 * min(heights),
    )


def sweep_figure(results: Results, sweep: Mapping[str, Any]) -> Figure:
    """Return the heat map of validation MAP over gamma and mu; our best point and the paper's are framed."""
    dataset = sweep["dataset"]
    gammas, mus = sweep_axes(sweep)
    values = np.full((len(gammas), len(mus)), np.nan)  # (gammas, mus)
    texts = {}
    for point in sweep["points"]:
        parameters = point["parameters"]
        row, column = (
            gammas.index(parameters["quantization_weight"]),
            mus.index(parameters["constraint_weight"]),
        )
        values[row, column] = point["map"]
        texts[row, column] = point_text(point)
    low, high = float(np.nanmin(values)), float(np.nanmax(values))

    def paint(figure: Any, axes: Any) -> None:
        mesh = axes.pcolormesh(
            np.ma.masked_invalid(values),
            cmap="cividis",
            vmin=low,
            vmax=max(high, low + 1e-9),
            edgecolors="none",
        )
        for (row, column), value in np.ndenumerate(values):
            if not np.isnan(value):
                light = value > (low + high) / 2
                axes.text(
                    column + 0.5,
                    row + 0.5,
                    texts[row, column],
                    ha="center",
                    va="center",
                    fontsize=8,
                    color="#000000" if light else "#ffffff",
                )
        parameters = best_point(sweep)["parameters"]
        _frame(
            axes,
            mus.index(parameters["constraint_weight"]),
            gammas.index(parameters["quantization_weight"]),
            "#ff5a36",
            "-",
        )
        theirs = PENALTIES.get(dataset)
        legend = "red frame: best here"
        if theirs and theirs.constraint_weight in mus and theirs.quantization_weight in gammas:
            _frame(
                axes,
                mus.index(theirs.constraint_weight),
                gammas.index(theirs.quantization_weight),
                "#ffffff",
                (0, (2, 2)),
            )
            legend += ", white dashes: the paper's best"
        axes.set_title(f"{sweep_title(sweep)}: MAP over gamma and mu, {sweep['bits']} bits")
        axes.set_xlabel(f"mu ({legend})")
        axes.set_ylabel("gamma")
        axes.set_xticks(np.arange(len(mus)) + 0.5, [write(mu, "power") for mu in mus])
        axes.set_yticks(np.arange(len(gammas)) + 0.5, [write(gamma, "power") for gamma in gammas])
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        axes.set_position((0.13, axes.get_position().y0, 0.7, axes.get_position().height))
        bar = figure.colorbar(
            mesh, cax=figure.add_axes((0.86, axes.get_position().y0, 0.025, axes.get_position().height))
        )
        bar.outline.set_visible(False)

    return draw(
        sweep_name(results, sweep),
        f"Validation MAP over gamma and mu, {sweep_title(sweep)}. {sweep_words(sweep)}",
        paint,
        height=HEIGHT,
    )


def _frame(axes: Any, column: int, row: int, colour: str, dashes: Any) -> None:
    axes.plot(
        [column + 0.06, column + 0.94, column + 0.94, column + 0.06, column + 0.06],
        [row + 0.08, row + 0.08, row + 0.92, row + 0.92, row + 0.08],
        color=colour,
        linestyle=dashes,
        linewidth=2,
    )


def _curves(results: Results, dataset: str, protocol: str, bits: int, field: str) -> tuple[list[Line], str]:
    """Return the lines of a curve over its levels, and the seeds in words."""
    where = {"dataset": dataset, "protocol": protocol}
    means = {}
    for series in results.series(**where):
        one = results.mean("map", series, bits, **where)
        for level in [] if one is None else sorted(one.cells[0].content.get(field) or {}, key=float):
            mean = results.mean(f"{field}/{level}", series, bits, **where)
            if mean is not None:
                means[series, float(level)] = mean
    return _over_shared_seeds(means)


def _over_shared_seeds(means: Mapping[tuple[Series, float], Mean]) -> tuple[list[Line], str]:
    """Return lines of means over the seeds that all points share, and these seeds in words: a figure compares the same splits."""
    shared = set.intersection(*(set(mean.by_seed) for mean in means.values())) if means else set()
    if not shared:
        return _lines({at: mean.value for at, mean in means.items()}), "points of different seeds"
    named = f"seed{'s' if len(shared) > 1 else ''} {', '.join(map(str, sorted(shared)))}"
    return _lines({at: mean.over(shared).value for at, mean in means.items()}), named


def _lines(heights: Mapping[tuple[Series, float], float]) -> list[Line]:
    """Return one line for each series, through its points in their order."""
    points: dict[Series, list[tuple[float, float]]] = {}
    for (series, x), y in heights.items():
        points.setdefault(series, []).append((x, y))
    return [Line(series, [x for x, _ in at], [y for _, y in at]) for series, at in points.items()]


def _order_at_end(lines: Sequence[Line], places: Mapping[float, str] | None = None) -> str:
    """Return in words what is seen at the right end: the series from the top down, and where shorter lines end."""
    ends = sorted(lines, key=lambda line: (-line.y[-1], line.series.order))
    last = max(line.x[-1] for line in lines)
    said = [
        f"{line.series.label} {write(line.y[-1])}"
        + (f" (at {places[line.x[-1]]})" if places and line.x[-1] < last else "")
        for line in ends
    ]
    return f"At the right, from the top: {', '.join(said)}."
