"""Report: the tables of everything but MAP: query time by step, precision, size, penalties, convergence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from supquant_lab.machine import ARM_SERVERS
from supquant_lab.paper.comparisons import SPREAD_NOTE
from supquant_lab.paper.published import PENALTIES
from supquant_lab.paper.results import Mean, Results, Series, title
from supquant_lab.paper.tables import CUT_SHORT, Entry, Row, Table, identity, number, source, write

if TYPE_CHECKING:
    from supquant_lab.paper.results import Cell

TIMED_SERIES = (Series("sq"), Series("sq", ranking="label"), Series("cq"), Series("sdh"))
"""The series whose query times the paper drew, and ours with the ranking that is the default of the library."""

QUERY_STEPS = {
    "features": "kernel",
    "projection": "projection",
    "tables": "tables",
    "encode": "hashing",
    "scan": "scan",
    "total": "total",
}
"""The steps of a query, and their names in a table."""

SOLVERS = (Series("sq"), Series("sq", solver="alternating"))
"""The series of the two solvers."""


def machine_of(cell: Cell) -> str:
    """Return the machine of a cell in words: processor, cores, instruction set, system.

    Examples
    --------
    >>> from supquant_lab.paper.results import Cell
    >>> machine_of(Cell("a", {"machine": {"processor": "Xeon", "cores": 16}}, Series("sq")))
    'Xeon, 16 cores'
    """
    machine = cell["machine"]
    cores = machine.get("cores")
    processor = machine.get("processor")
    named = [
        ARM_SERVERS.get(processor, processor),
        cores and f"{cores} cores",
        machine.get("instruction_set"),
    ]
    return ", ".join(str(part) for part in (*named, machine.get("system")) if part) or "unnamed machine"


def timed_results(results: Results) -> tuple[Results, str] | None:
    """Return the cells of `TIMED_SERIES`, seed 0, that come from the machine with most of them, and its name.

    Times of different machines are never compared.
    """
    timed = [
        cell
        for cell in results.cells
        if cell.series in TIMED_SERIES and cell["protocol"] == "paper" and cell["seed"] == 0
    ]
    if not timed:
        return None
    counts = Counter(machine_of(cell) for cell in timed)
    machine = min(counts, key=lambda name: (-counts[name], name))
    return Results(tuple(cell for cell in timed if machine_of(cell) == machine)), machine


def time_table(results: Results, timed: Results, dataset: str, machine: str) -> Table:
    """Return the table of milliseconds per query by step, with MAP, for the results of one machine."""
    where = {"dataset": dataset, "protocol": "paper"}
    rows = [
        Row(
            Entry(f"{line.label}, {bits} bits"),
            [
                *(
                    number(timed.mean(f"map_{codes}", line, bits, **where))
                    for codes in ("learned", "encoded")
                ),
                *(number(timed.mean(f"query_ms/{part}", line, bits, **where), "ms") for part in QUERY_STEPS),
            ],
            "ours" if line.is_ours else "",
        )
        for line in timed.series(**where)
        for bits in timed.lengths(series=line, **where)
    ]
    return Table(
        f"query-time-{results.slug(dataset)}",
        f"Milliseconds per query by step, {title(dataset)}, one thread of one machine ({machine}).",
        ["method", "MAP, learned", "MAP, encoded", *QUERY_STEPS.values()],
        rows,
        notes=["A time is the median over 50 single queries, in the best of up to 20 rounds."],
    )


def precision_table(results: Results, dataset: str, protocol: str, bits: int) -> Table:
    """Return the table of the precision among the first 1, 10, 100 and 1,000 items at one code length."""
    where = {"dataset": dataset, "protocol": protocol}
    found = (cell["precision_at"] for cell in results.select(**where))
    ranks = sorted({int(rank) for precision in found for rank in precision})
    rows = []
    for line in results.series(**where):
        means = [results.mean(f"precision_at/{rank}", line, bits, **where) for rank in ranks]
        if any(means):
            rows.append(
                Row(Entry(line.label), [number(mean) for mean in means], "ours" if line.is_ours else "")
            )
    return Table(
        f"precision-{results.slug(dataset)}-{protocol}",
        f"Precision among the first k, {title(dataset)}, protocol “{protocol}”, {bits} bits.",
        ["method", *(f"k = {rank:,}" for rank in ranks)],
        rows,
        notes=[SPREAD_NOTE],
    )


def size_table(results: Results, dataset: str) -> Table:
    """Return the table of bytes per item, distinct codes and seconds of a fit under protocol `paper`."""
    where = {"dataset": dataset, "protocol": "paper"}
    lengths = results.lengths(**where)
    shown = {
        "index_bytes_per_item": ("bytes per item", "bytes"),
        "distinct_codes": ("distinct codes", "count"),
        "fit_seconds": ("seconds of a fit", "seconds"),
    }
    rows = [
        Row(
            Entry(line.label),
            [
                number(results.mean(field, line, bits, **where), form)
                for field, (_, form) in shown.items()
                for bits in lengths
            ],
            "ours" if line.is_ours else "",
        )
        for line in results.series(**where)
    ]
    return Table(
        f"size-{results.slug(dataset)}",
        f"Size of an index of {title(dataset)} and time of a fit, as means over seeds.",
        ["method", *(f"{bits} bits" for _ in shown for bits in lengths)],
        rows,
        groups=[Entry(""), *(Entry(text, span=len(lengths)) for text, _ in shown.values())],
        notes=[
            "A longer code of `sq` starts from the shorter one. Its seconds are those of the additional fit.",
            (
                "Each cell names its machine and its threads. Other programs were running during many measurements, so "
                "seconds only show the order of magnitude and do not rank methods."
            ),
        ],
    )


def best_point(sweep: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the point of a sweep with the highest MAP, the first of equal ones.

    Examples
    --------
    >>> best_point({"points": [{"map": 0.1}, {"map": 0.3}, {"map": 0.2}]})
    {'map': 0.3}
    """
    best: Mapping[str, Any] = max(sweep["points"], key=lambda point: point["map"])
    return best


def point_text(point: Mapping[str, Any]) -> str:
    """Return the MAP of a point of a sweep as text, marked if its fit stopped at the time limit.

    Examples
    --------
    >>> point_text({"map": 0.25}), point_text({"map": 0.25, "truncated": True})
    ('.2500', '.2500†')
    """
    return write(point["map"]) + (CUT_SHORT if point.get("truncated") else "")


def sweep_axes(sweep: Mapping[str, Any]) -> tuple[list[float], list[float]]:
    """Return the values of gamma and of mu in a sweep, sorted."""
    points = [point["parameters"] for point in sweep["points"]]
    return (
        sorted({point["quantization_weight"] for point in points}),
        sorted({point["constraint_weight"] for point in points}),
    )


def sweep_name(results: Results, sweep: Mapping[str, Any]) -> str:
    """Return the name of a sweep's figure and table, with method and solver where these are not the usual ones."""
    parts = [results.slug(sweep["dataset"]), *_sweep_variant(sweep)]
    return "-".join(["penalties", *parts])


def sweep_title(sweep: Mapping[str, Any]) -> str:
    """Return the data set of a sweep, with method and solver where these are not the usual ones.

    Examples
    --------
    >>> sweep_title({"dataset": "mnist"}), sweep_title({"dataset": "mnist", "solver": "alternating"})
    ('MNIST', 'MNIST, alternating')
    """
    return ", ".join([title(sweep["dataset"]), *_sweep_variant(sweep)])


def sweep_table(results: Results, sweep: Mapping[str, Any]) -> Table:
    """Return the table of validation MAP over gamma and mu, the best point bold, the paper's best in the notes."""
    dataset = sweep["dataset"]
    gammas, mus = sweep_axes(sweep)
    best = best_point(sweep)
    at = {
        (point["parameters"]["quantization_weight"], point["parameters"]["constraint_weight"]): point
        for point in sweep["points"]
    }
    rows = []
    for gamma in gammas:
        entries = []
        for mu in mus:
            point = at.get((gamma, mu))
            if point is None:
                entries.append(number(None))
                continue
            data = {
                "figure": "sweep",
                "dataset": dataset,
                "gamma": repr(gamma),
                "mu": repr(mu),
                "value": repr(point["map"]),
            }
            entries.append(Entry(point_text(point), data=data, kind="best" if point is best else ""))
        rows.append(Row(Entry(write(gamma, "power")), entries))
    return Table(
        sweep_name(results, sweep),
        f"Validation MAP of sq over gamma and mu, {sweep_title(sweep)}, {sweep['bits']} bits. Bold: the best.",
        ["gamma", *(f"mu {write(mu, 'power')}" for mu in mus)],
        rows,
        notes=[
            (
                f"{sweep_words(sweep)} {sweep.get('n_validation', '?')} validation queries, {sweep.get('n_training', '?')} "
                f"training rows, seed {sweep.get('seed', '?')}, made by `{sweep.get('command', 'supquant paper')}`."
            )
        ],
    )


def sweep_words(sweep: Mapping[str, Any]) -> str:
    """Return the best point of a sweep and that of the paper, in words."""
    best = best_point(sweep)
    gamma, mu = best["parameters"]["quantization_weight"], best["parameters"]["constraint_weight"]
    ours = f"Best here: gamma {write(gamma, 'power')}, mu {write(mu, 'power')}, validation MAP {write(best['map'])}"
    theirs = PENALTIES.get(sweep["dataset"])
    if theirs is None:
        return ours + ". The paper did not measure this data set."
    return (
        f"{ours}. In the paper: gamma {write(theirs.quantization_weight, 'power')}, "
        f"mu {write(theirs.constraint_weight, 'power')}, validation MAP {write(theirs.validation_map)}."
    )


def convergence_cells(results: Results, dataset: str, bits: int) -> list[Cell]:
    """Return one cell of each solver that has an objective by iteration, of the first seed that both have if there is one.

    Cells of the folder `curves` go before those of the comparison, whose fits may end sooner.
    """
    where = {"dataset": dataset, "bits": bits, "protocol": "paper"}
    curves = [
        {
            cell["seed"]: cell
            for among in (results, Results(results.curves))
            for cell in among.select(series=solver, **where)
            if cell.content.get("convergence")
        }
        for solver in SOLVERS
    ]
    shared = sorted(set.intersection(*map(set, curves)))
    if shared:
        return [curve[shared[0]] for curve in curves]
    return [curve[min(curve)] for curve in curves if curve]


def convergence_words(results: Results, cells: list[Cell]) -> list[str]:
    """Return sentences on when each fit ends, and on whether the lower objective has the higher MAP."""
    words = []
    for cell in cells:
        tol = cell["parameters"].get("tol")
        if tol is None:
            continue
        said = (
            f"`{_solver_of(cell)}` was set to end with the first iteration that lowers the objective by less than "
            f"{100 * tol:g}%"
        )
        same = {name: cell[name] for name in ("dataset", "protocol", "bits", "seed")}
        for other in results.select(series=cell.series, **same):
            if other["parameters"].get("tol", tol) != tol:
                said += f"; its fit in the tables of MAP, by less than {100 * other['parameters']['tol']:g}%"
        words.append(f"{said}.")
    if len(cells) == len(SOLVERS):
        lower = min(cells, key=lambda cell: cell["convergence"][-1][1])
        better = max(cells, key=lambda cell: cell["map_learned"])
        if lower is not better:
            words.append(
                f"`{_solver_of(lower)}` ends with the lower objective, `{_solver_of(better)}` with the higher MAP."
            )
    return words


def convergence_table(cells: list[Cell]) -> Table:
    """Return the table of iterations, seconds, first and last objective of each solver."""
    rows = []
    for cell in cells:
        curve = cell["convergence"]
        read = {
            "convergence/iterations": (len(curve), "count"),
            "convergence/seconds": (curve[-1][0], "seconds"),
            "convergence/first": (curve[0][1], "objective"),
            "convergence/last": (curve[-1][1], "objective"),
        }
        entries = [
            Entry(write(value, form), data={**identity(cell), **source(name, [cell], value)})
            for name, (value, form) in read.items()
        ]
        entries.append(number(Mean("map_learned", (cell,))))
        head = Entry(_solver_of(cell), f"seed {cell['seed']}")
        rows.append(Row(head, entries, "ours" if cell.series.is_ours else ""))
    return Table(
        "convergence",
        f"Both solvers on {title(cells[0]['dataset'])} at {cells[0]['bits']} bits.",
        [
            "solver",
            "iterations",
            "seconds",
            "objective after the first",
            "objective at the end",
            "MAP, learned",
        ],
        rows,
        notes=[_same_objective(cells)],
    )


def _solver_of(cell: Cell) -> str:
    return str(cell["parameters"].get("solver", "joint"))


def _sweep_variant(sweep: Mapping[str, Any]) -> list[str]:
    variant = (sweep.get("method", "sq"), sweep.get("solver", "joint"))
    return [name for name in variant if name not in ("sq", "joint")]


def _same_objective(cells: list[Cell]) -> str:
    """Return the note on whether the objectives of cells can be compared: with different penalties they are different sums."""
    penalties = {
        (cell["parameters"].get("quantization_weight"), cell["parameters"].get("constraint_weight"))
        for cell in cells
    }
    if len(penalties) == 1:
        return "The objective is psi, the sum that training minimises. Both solvers had the same penalties."
    return "The solvers had different penalties, so the values of their objectives cannot be compared, only the shapes."
