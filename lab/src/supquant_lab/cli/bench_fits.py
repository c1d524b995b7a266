"""`supquant bench`: fits, odd fits, encoding, many labels, new classes, audits and GIST descriptors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from supquant.cli.console import err, out, print_facts, print_line, print_table, progress_bars
from supquant.errors import InputError
from supquant.inputs.parameters import check_integer
from supquant_lab.bench.audit import bench_audit
from supquant_lab.bench.encode import bench_encode, bench_reading
from supquant_lab.bench.extend import bench_extend
from supquant_lab.bench.fit import LABELS_COMMAND, bench_fit
from supquant_lab.bench.gist import bench_gist
from supquant_lab.bench.labels import SEVERAL_LABELS, SIZES, bench_labels
from supquant_lab.bench.odd_fits import bench_odd_fits
from supquant_lab.bench.places import bench_places
from supquant_lab.cli.bench import (
    JsonFile,
    Quick,
    benchmark,
    describe,
    print_records,
    read_figures,
    read_numbers,
    write_figures,
)
from supquant_lab.datasets import NAMES, load

app = typer.Typer()

USUAL_LABELS = "100,1000,10000"
"""Numbers of labels that are measured by default."""


# fits and encoding -----------------------------------------------------------------------------------------------------------


@benchmark(app)
def fit(
    quick: Quick = False,
    default_fits: Annotated[
        bool, typer.Option(help="Compare default fits with other libraries, too.")
    ] = True,
    memory: Annotated[bool, typer.Option(help="Measure the memory of fitting mapped files, too.")] = True,
    folder: Annotated[Path | None, typer.Option(help="Where those files (1.6 GB) are made.")] = None,
) -> dict[str, Any]:
    """Time a fit against one matrix product over the same rows, and watch the memory of large fits."""
    with progress_bars() as callback:
        record = bench_fit(
            quick=quick,
            default_fits=default_fits,
            memory=memory,
            memory_folder=folder,
            callback=callback,
            on_memory=lambda rows: err.print(f"Fitting a memory-mapped file of {rows:,} rows ..."),
        )
    _print_setting(record, f"{record['rows']:,} rows, {record['features']} features, {record['bits']} bits")
    print_facts(
        [
            ("fit", f"{record['fit_seconds']:.2f} s, {record['n_iter']} iterations, MAP {record['map']:.4f}"),
            ("one X'X in float32", f"{record['product_seconds']:.3f} s"),
            ("ratio", f"{record['ratio']:.1f} (limit {record['ratio_limit']:.0f})"),
        ]
    )
    for name, default in record["default_fits"].items():
        print_facts(_default_facts(name, default))
    out.print(f"A fit of a thousand labels: {LABELS_COMMAND}")
    if record["memory"]:
        print_records(
            {
                "rows": "{rows:,}",
                "peak anonymous MB": "{peak_anonymous_mb:.0f}",
                "limit MB": "{limit_mb:.0f}",
                "seconds": "{fit_seconds:.0f}",
                "iterations": "{max_iter}",
            },
            record["memory"],
            title="Fitting memory-mapped float32 files of 1,000 columns to 64 bits",
        )
    return record


@benchmark(app)
def encode(quick: Quick = False) -> dict[str, Any]:
    """Compare encoding speed with the LocalSearchQuantizer of FAISS, one thread each."""
    with progress_bars() as callback:
        record = bench_encode(quick=quick, callback=callback)
    _print_setting(record, f"{record['dimensions']} dimensions to {record['bits']} bits, one thread")
    print_records(
        {
            "": "{name}",
            "vectors per second": "{vectors_per_second:,.0f}",
            "relative error": "{relative_error:.4f}",
            "vectors timed": "{vectors:,}",
        },
        record["sides"],
    )
    out.print(f"ratio {record['ratio']:.1f} (at least {record['ratio_limit']:.0f} wanted)")
    return record


def _default_facts(name: str, record: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the lines about one default fit."""
    qualities = [
        f"{record[key]:.3f}" for key in ("map_labelled", "map_unlabelled") if record[key] is not None
    ]
    size = f"{record['rows']:,} rows to {record['bits']} bits, one thread"
    facts = [
        (f"default fit of {name}", f"{size}: {record['fit_seconds']:.1f} s of processor time"),
        ("expected MAP", f"{', '.join(qualities)} (items with labels, without labels)"),
    ]
    for each in record.get("regressions", ()):
        theirs = f"{each['seconds']:.1f} s, {each['iterations']} iterations, ratio {each['ratio']:.1f}"
        facts.append((f"LogisticRegression(C=10, tol={each['tolerance']:g})", theirs))
    if "product_seconds" in record:
        rows, columns = record["product_shape"]
        facts.append((f"one X'X of ({rows}, {columns})", f"{record['product_seconds']:.1f} s"))
    return [*facts, ("ratio", f"{record['ratio']:.2f} (limit {record['ratio_limit']:g})")]


def _print_setting(record: dict[str, Any], what: str) -> None:
    print_facts([("data", f"{record['dataset']}, {what}"), ("machine", describe(record["machine"]))])


@benchmark(app)
def reading(
    rows: Annotated[int, typer.Option(help="Number of vectors.", min=100)] = 2_000_000,
    columns: Annotated[int, typer.Option(help="Number of dimensions.", min=2)] = 384,
    rounds: Annotated[int, typer.Option(help="How often each side is measured.", min=1)] = 2,
    folder: Annotated[
        Path | None, typer.Option(help="Folder for the files: four bytes per number, 3 GB by default.")
    ] = None,
) -> dict[str, Any]:
    """Stream float16 vectors from Parquet files to codes, and compare with the same vectors in an .npy file."""
    record = bench_reading(
        rows, columns, rounds=rounds, folder=folder, on_side=lambda name: print_line(f"Reading {name} ...")
    )
    facts: list[tuple[str, object]] = [
        ("vectors", f"{rows:,} x {columns} float16 in {record['files']} Parquet files, or one .npy file"),
        ("machine", describe(record["machine"])),
    ]
    for name, side in record["sides"].items():
        speed = f"{side['seconds']:.1f} s, {record['vectors_per_second'][name]:,.0f} vectors per second"
        facts.append((f"from {name}", f"{speed}, {side['memory_mb']:.0f} MB above the model"))
    facts.append(("speed from Parquet over .npy", f"{record['ratio']:.2f}, asked {record['speed_limit']}"))
    print_facts([*facts, ("memory limit", f"{record['memory_limit_mb']:.0f} MB")])
    return record


# labels ----------------------------------------------------------------------------------------------------------------------


@benchmark(app)
def labels(
    labels: Annotated[
        str | None,
        typer.Option(
            help=f"How many labels there are, one number or several: {','.join(map(str, SIZES))} have rows and dimensions "
            f"of their own, others need --rows and --dimensions. {USUAL_LABELS} by default; with --several, none."
        ),
    ] = None,
    several: Annotated[
        bool, typer.Option("--several", help=f"Measure {SEVERAL_LABELS:,} labels, 1 to 5 per row, as well.")
    ] = False,
    rows: Annotated[int | None, typer.Option(help="Training rows, at least one per label.")] = None,
    dimensions: Annotated[int | None, typer.Option(help="Of the rows.")] = None,
    spread: Annotated[
        float | None,
        typer.Option(
            help="Standard deviation of the means of classes; that of rows around their mean is 1. By default the Bayes "
            "rule is right for 99 of 100 rows; 1 with several labels per row."
        ),
    ] = None,
    bits: Annotated[str, typer.Option(help="Of a code, one number or several: 16,64.")] = "16,64",
    new_classes: Annotated[
        str,
        typer.Option(
            help="Fraction of items of new classes that fits are told to expect. 0 by default here, since all items are of "
            "known classes; auto is the library's default, with which position counts in addition to labels."
        ),
    ] = "0",
    seed: Annotated[int, typer.Option(help="Of rows and fits.", min=0)] = 0,
) -> dict[str, Any]:
    """Fit Gaussian classes, each fit in a fresh process, and compare MAP with that of stored labels and of float scores."""
    if labels is None and not several:
        labels = USUAL_LABELS
    record = bench_labels(
        [] if labels is None else read_numbers(labels, "labels"),
        several=several,
        rows=rows,
        dimensions=dimensions,
        spread=spread,
        bits=read_numbers(bits, "bits"),
        new_classes=_fraction(new_classes),
        seed=seed,
        on_case=lambda case: err.print(f"Measuring {case} ..."),
    )
    print_facts(
        [
            ("data", f"Gaussian classes, new classes {new_classes}, seed {seed}"),
            ("machine", f"{describe(record['machine'])}, queries on one thread"),
        ]
    )
    cases = [
        each
        | {
            "name": f"{each['labels']:,}{', several per row' if each['several'] else ''}",
            "bayes": "" if each["bayes_accuracy"] is None else f"{each['bayes_accuracy']:.4f}",
            "of_bayes": "" if each["accuracy_ratio"] is None else f"{each['accuracy_ratio']:.4f}",
        }
        for each in record["measured"]
    ]
    print_records(
        {
            "labels": "{name}",
            "rows": "{rows:,} x {dimensions}",
            "spread": "{spread:g}",
            "bits": "{bits}",
            "fit, s": "{fit_seconds:.1f}",
            "times X'X": "{fit_ratio:,.0f}",
            "peak MB": "{peak_memory_mb:,.0f}",
            "right": "{accuracy:.4f}",
            "Bayes rule": "{bayes}",
            "ratio": "{of_bayes}",
            "to tables, ms": "{tables_ms:.2f}",
            "to answers, ms": "{answers_ms:.2f}",
        },
        cases,
        title="Fits, classifiers and queries (peak memory is that above the data)",
    )
    quality = "{{{0}[map]:.4f}} ({{{0}[precision_at_10]:.3f}})"
    best = "{{{0}[map_best]:.4f}} ({{{0}[precision_at_10_best]:.3f}})"
    ratio = "{{{0}[map_ratio]:.4f}}"
    print_records(
        {
            "labels": "{name}",
            "bits": "{bits}",
            "items": "{items:,}",
            "distinct codes": "{distinct_codes:,}",
            "with labels": quality.format("labelled"),
            "label stored": best.format("labelled"),
            "ratio to stored": ratio.format("labelled"),
            "without": quality.format("unlabelled"),
            "float scores": best.format("unlabelled"),
            "ratio to float": ratio.format("unlabelled"),
        },
        cases,
        title="MAP, followed by the precision of the first ten; ratios are those of MAP",
    )
    return record


def _fraction(text: str) -> float | None:
    try:
        return None if text == "auto" else float(text)
    except ValueError:
        raise InputError(f"new_classes must be a fraction from 0 to 1, or auto; got {text!r}") from None


@benchmark(app)
def extend(
    dataset: Annotated[str, typer.Option(help=f"{', '.join(NAMES)}; one label per row.")] = "banking77",
    rows: Annotated[
        str, typer.Option(help="Labelled rows of each new class, one number or several: 5,20.")
    ] = "5,20",
    bits: Annotated[int, typer.Option(help="Of a code.", min=8, max=128)] = 64,
    seed: Annotated[int, typer.Option(help="Of split, rows and fits.", min=0)] = 0,
) -> dict[str, Any]:
    """Compare extending a model by a few rows of new classes with fitting it again, under the protocol open."""
    counts = [check_integer(each, "rows", 1) for each in read_numbers(rows, "rows")]
    if bits % 8:
        raise InputError(f"bits must be a multiple of 8, got {bits}")
    record = bench_extend(
        load(dataset),
        rows=counts,
        bits=bits,
        seed=seed,
        on_step=lambda step: err.print(f"Measuring {step} ..."),
    )
    print_facts(
        [
            ("data", f"{record['dataset']}, {record['new_classes']} new classes, {bits} bits, seed {seed}"),
            ("machine", describe(record["machine"])),
        ]
    )
    lines = [record["before"] | {"rows": "", "by": "", "gain": "", "s": ""}]
    for each in record["measured"]:
        gain = "" if each["part_of_gain"] is None else f"{each['part_of_gain']:.2f}"
        extended = {"rows": each["rows"], "by": "extend", "gain": gain, "s": f"{each['extend_seconds']:.2f}"}
        again = {"rows": "", "by": "new fit", "gain": "", "s": f"{each['fit_seconds']:.1f}"}
        lines += [each["extended"] | extended, each["fitted_anew"] | again]
    maps = {name: f"{{{name}:.4f}}" for name in ("known", "new", "harmonic")}
    print_records(
        {"rows per class": "{rows}", "by": "{by}", **maps, "fraction of the gain": "{gain}", "s": "{s}"},
        lines,
        title="MAP among known and new classes, items without labels",
    )
    return record


@benchmark(app)
def odd_fits(
    problems: Annotated[int, typer.Option(help="Number of random problems.", min=1)] = 60,
    seed: Annotated[int, typer.Option(help="Of problems and fits.", min=0)] = 0,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the file of --json, which is written after each fit.")
    ] = False,
    json: JsonFile = None,
) -> dict[str, Any]:
    """Fit random odd problems, and compare them with logistic regression on standardised columns.

    Scales from 1e-30 to 1e30, offsets, outliers, constant, copied and unequal columns, copied rows, 100,000 rows to 3 of
    another, classes of one row, float16. A fit fails if it ends with an error that is no refusal, takes a minute, or is clearly
    worse without a warning.
    """
    if resume and json is None:
        raise InputError("--resume needs --json, the file to go on with")

    def keep(record: dict[str, Any]) -> None:
        write_figures(json, record)
        last = record["fits"][-1]
        err.print(f"{last['number']:4}  {last['problem']}", markup=False)

    before = read_figures(json) if resume and json is not None and json.exists() else None
    record = bench_odd_fits(problems, seed=seed, before=before, on_step=keep)
    print_facts([("machine", describe(record["machine"]))])
    fits = [
        each
        | {
            "warns": "yes" if each["warnings"] else "",
            "ours": f"{each['accuracy']:.3f}",
            "theirs": f"{each['regression']:.3f}",
        }
        for each in record["fits"]
        if each["accuracy"] is not None
    ]
    print_records(
        {
            "": "{number}",
            "problem": "{problem}",
            "accuracy": "{ours}",
            "regression": "{theirs}",
            "warns": "{warns}",
            "s": "{seconds:.1f}",
        },
        fits,
        title="Accuracy on 1,000 new rows",
    )
    print_line(
        f"{problems} problems: {record['refused']} refused, {record['warned']} warned, {len(record['failures'])} failed."
    )
    return record


@benchmark(app)
def audit(
    datasets: Annotated[
        str,
        typer.Option(
            help="Data sets of one label per row, with commas between. `-ambiguous` after a name merges some classes "
            "and splits others at random."
        ),
    ] = "mnist,banking77,banking77-ambiguous,tinyimagenet",
    seeds: Annotated[str, typer.Option(help="Seeds of the planted faults, with commas between.")] = "0,1,2",
    rows: Annotated[int, typer.Option(help="Take at most this many random rows.", min=1000)] = 20_000,
) -> dict[str, Any]:
    """Change 3% of the labels, copy rows and merge two classes; measure what an audit and cleanlab find."""
    records = [
        bench_audit(
            load(name.removesuffix("-ambiguous")),
            ambiguous=name.endswith("-ambiguous"),
            seeds=read_numbers(seeds, "seeds"),
            n_rows=rows,
            on_step=lambda step: err.print(f"Measuring {step} ..."),
        )
        for name in datasets.split(",")
    ]
    print_facts([("machine", describe(records[0]["machine"]))])
    lists = list(records[0]["measured"][0]["others"])
    for record in records:
        found = [
            {"audit, all rows": each["all_rows"], "audit, its list": each["labels"]} | each["others"]
            for each in record["measured"]
        ]
        print_table(
            [
                f"{record['dataset']}{', ambiguous' if record['ambiguous'] else ''}, {record['rows']:,} rows",
                *(f"AP, seed {each['seed']}" for each in record["measured"]),
                "listed",
                "precision",
                "recall",
            ],
            [
                [
                    name,
                    *(f"{each[name]['average_precision']:.3f}" for each in found),
                    *(f"{each['listed']:,}" for each in (found[0][name],)),
                    f"{np.mean([each[name]['precision'] for each in found]):.2f}",
                    f"{np.mean([each[name]['recall'] for each in found]):.2f}",
                ]
                for name in ("audit, all rows", "audit, its list", *lists)
            ],
        )
    print_table(
        ["planted", "changed", "listed", "copies found", "s", "processor s"],
        [
            [
                f"{record['dataset']}, seed {each['seed']}",
                f"{each['changed']:,}",
                f"{each['labels']['listed']:,}",
                f"{each['duplicates_found']} of {each['duplicates_planted']}",
                f"{each['seconds']:.0f}",
                f"{each['processor_seconds']:.0f}",
            ]
            for record in records
            for each in record["measured"]
        ],
    )
    return {"benchmark": "audit", "records": records}


@benchmark(app)
def places(
    datasets: Annotated[
        str, typer.Option(help="Data sets of one label per row, with commas between.")
    ] = "banking77,mnist,tinyimagenet",
    seed: Annotated[int, typer.Option(help="Draws the rows, and seeds the models.")] = 0,
) -> dict[str, Any]:
    """Place items by their codes, and count near items on the map that have the same label."""
    records = [
        bench_places(load(name), seed=seed, on_step=lambda step: err.print(f"Measuring {step} ..."))
        for name in datasets.split(",")
    ]
    print_facts([("machine", describe(records[0]["machine"]))])
    print_table(
        [
            "near items with the same label",
            "labels",
            "rows",
            "codes",
            "linear map",
            "layout",
            "s",
            "processor s",
        ],
        [
            [
                record["dataset"],
                f"{record['labels']}",
                f"{record['placed_rows']:,}",
                *(f"{record['same_label'][name]:.2f}" for name in ("codes", "linear", "neighbours")),
                f"{record['seconds']:.0f}",
                f"{record['processor_seconds']:.0f}",
            ]
            for record in records
        ],
    )
    return {"benchmark": "places", "records": records}


# pictures --------------------------------------------------------------------------------------------------------------------


@benchmark(app)
def gist(
    images: Annotated[int, typer.Option(min=1, help="How many pictures of 32 x 32 pixels.")] = 60_000,
) -> dict[str, Any]:
    """Time the GIST descriptors of small pictures on all cores, and compare them with the reference."""
    with progress_bars() as callback:
        record = bench_gist(n_images=images, callback=callback)
    agreement = record["agreement"]
    print_facts(
        [
            ("pictures", f"{record['images']:,} of 32 x 32 pixels ({record['pictures']})"),
            ("machine", f"{describe(record['machine'])}, {record['threads']} threads"),
            ("time", f"{record['seconds']:.1f} s, {record['images_per_second']:,.0f} pictures per second"),
            ("work", f"{record['processor_seconds']:.1f} s of processor time"),
            ("load before", f"{record['load_average_before']:.1f}"),
            ("peak memory", f"{record['peak_memory_mb']:.0f} MB, {record['images_mb']:.0f} of them pictures"),
            (
                "agreement",
                "not measured: cifar10_sample.npz is not in the data folder"
                if agreement is None
                else f"lowest correlation of a dimension {agreement['lowest_correlation']:.9f}, largest "
                f"difference {agreement['largest_difference']:.1e} of {agreement['largest_value']:.2f}",
            ),
        ]
    )
    return record
