"""`supquant bench labels`: time, memory and quality with many labels."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from supquant.cli.console import err, print_facts, print_table
from supquant.errors import InputError
from supquant_lab.bench.labels import SEVERAL_LABELS, SIZES, bench_labels
from supquant_lab.cli.options import JsonFile, check_figures, describe, read_numbers, write_figures

app = typer.Typer()

USUAL_LABELS = "100,1000,10000"
"""Numbers of labels that are measured by default."""


@app.command("labels")
def labels(
    labels: Annotated[
        str | None,
        typer.Option(
            help=f"How many labels there are, one number or several: {','.join(map(str, SIZES))} have rows and dimensions "
            f"of their own, others need --rows and --dimensions. {USUAL_LABELS} by default; with --several, none."
        ),
    ] = None,
    several: Annotated[
        bool,
        typer.Option("--several", help=f"Measure {SEVERAL_LABELS:,} labels too, 1 to 5 a row."),
    ] = False,
    rows: Annotated[int | None, typer.Option(help="Training rows, at least one a label.")] = None,
    dimensions: Annotated[int | None, typer.Option(help="Of the rows.")] = None,
    spread: Annotated[
        float | None,
        typer.Option(
            help="Standard deviation of the means of classes; that of rows around their mean is 1. By default the Bayes "
            "rule is right for 99 rows of 100; 1 with several labels a row."
        ),
    ] = None,
    bits: Annotated[str, typer.Option(help="Of a code, one number or several: 16,64.")] = "16,64",
    new_classes: Annotated[
        str,
        typer.Option(
            help="Share of new classes that fits are told to expect. 0 by default here, since all items are of known classes; "
            "auto is the library's default, by which position counts beside labels."
        ),
    ] = "0",
    seed: Annotated[int, typer.Option(help="Of rows and fits.", min=0)] = 0,
    json: JsonFile = None,
) -> None:
    """Fit Gaussian classes, each fit in a fresh process: time, memory, and MAP beside storing labels and float scores."""
    if labels is None and not several:
        labels = USUAL_LABELS
    check_figures(json)
    record = bench_labels(
        [] if labels is None else read_numbers(labels, "labels"),
        several=several,
        rows=rows,
        dimensions=dimensions,
        spread=spread,
        bits=read_numbers(bits, "bits"),
        new_classes=_share(new_classes),
        seed=seed,
        on_case=lambda case: err.print(f"Measuring {case} ..."),
    )
    print_facts(
        [
            ("data", f"Gaussian classes, new classes {new_classes}, seed {seed}"),
            ("machine", f"{describe(record['machine'])}, queries on one thread"),
        ]
    )
    print_table(
        [
            "labels",
            "rows",
            "spread",
            "bits",
            "fit, s",
            "times X'X",
            "peak MB",
            "right",
            "Bayes rule",
            "ratio",
            "to tables, ms",
            "to answers, ms",
        ],
        [[*_set(each), *_cost(each)] for each in record["measured"]],
        title="Fits, classifiers and queries (peak memory is that above the data)",
    )
    print_table(
        [
            "labels",
            "bits",
            "items",
            "distinct codes",
            "with labels",
            "label stored",
            "ratio",
            "without",
            "float scores",
            "ratio",
        ],
        [
            [
                _name(each),
                str(each["bits"]),
                f"{each['items']:,}",
                f"{each['distinct_codes']:,}",
                *_maps(each["labelled"]),
                *_maps(each["unlabelled"]),
            ]
            for each in record["measured"]
        ],
        title="MAP, and the precision of the first ten behind it; ratios are those of MAP",
    )
    write_figures(json, record)


def _share(text: str) -> float | None:
    try:
        return None if text == "auto" else float(text)
    except ValueError:
        raise InputError(f"new_classes must be a share from 0 to 1, or auto; got {text!r}") from None


def _name(each: dict[str, Any]) -> str:
    return f"{each['labels']:,}{', several a row' if each['several'] else ''}"


def _set(each: dict[str, Any]) -> list[str]:
    rows = f"{each['rows']:,} x {each['dimensions']}"
    return [_name(each), rows, f"{each['spread']:g}", str(each["bits"])]


def _cost(each: dict[str, Any]) -> list[str]:
    bayes, ratio = each["bayes_accuracy"], each["accuracy_ratio"]
    return [
        f"{each['fit_seconds']:.1f}",
        f"{each['fit_ratio']:,.0f}",
        f"{each['peak_memory_mb']:,.0f}",
        f"{each['accuracy']:.4f}",
        "" if bayes is None else f"{bayes:.4f}",
        "" if ratio is None else f"{ratio:.4f}",
        f"{each['tables_ms']:.2f}",
        f"{each['answers_ms']:.2f}",
    ]


def _maps(quality: dict[str, float]) -> list[str]:
    return [
        f"{quality['map']:.4f} ({quality['precision_at_10']:.3f})",
        f"{quality['map_best']:.4f} ({quality['precision_at_10_best']:.3f})",
        f"{quality['map_ratio']:.4f}",
    ]
