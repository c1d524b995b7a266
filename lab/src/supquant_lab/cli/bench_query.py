"""`supquant bench query`: the time of a query, in parts and as a whole."""

from __future__ import annotations

import typer

from supquant.cli.console import print_facts, print_table, progress_bars
from supquant_lab.bench.query import bench_query
from supquant_lab.cli.options import JsonFile, Quick, check_figures, describe, write_figures

app = typer.Typer()


@app.command("query")
def query(json: JsonFile = None, quick: Quick = False) -> None:
    """Time queries from raw vectors to answers beside FAISS, and their features and tables by either ranking."""
    check_figures(json)
    with progress_bars() as callback:
        record = bench_query(quick=quick, callback=callback)
    print_facts(
        [
            ("data", f"{record['dataset']}, {record['rows']:,} rows, {record['bits']} bits"),
            ("machine", f"{describe(record['machine'])}, queries on one thread, {record['batch']} at a time"),
        ]
    )
    print_table(
        [
            "features",
            "fit, s",
            "features, us",
            "label tables, us",
            "tables of the other ranking, us",
            "ratio",
        ],
        [
            [
                model["features"],
                f"{model['fit_seconds']:.1f}",
                f"{model['features_microseconds']:.1f}",
                f"{model['tables_microseconds']['label']:.2f}",
                f"{_other(model['tables_microseconds']):.2f}",
                f"{model['ratio']:.2f}",
            ]
            for model in record["models"]
        ],
        title=f"A query before the scan (ratio of at most {record['ratio_limit']:g} wanted)",
    )
    print_table(
        ["from raw vectors, on one thread", "measured", "asked"],
        [
            [figure["name"], f"{figure['measured']:,.2f} {figure['unit']}".strip(), figure["asked"]]
            for figure in record["figures"]
        ],
        title=f"Default models of {record['texts']} and of random rows",
    )
    write_figures(json, record)


def _other(tables: dict[str, float]) -> float:
    """Return the time of the ranking that is not the label one."""
    return next(time for ranking, time in tables.items() if ranking != "label")
