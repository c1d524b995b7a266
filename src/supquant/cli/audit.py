"""`supquant audit`: find labels that look wrong, duplicate rows, and classes that are confused."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from supquant.cli.console import err, print_line, progress_bars
from supquant.cli.ending import writing
from supquant.cli.files import check_output, has_columns
from supquant.cli.options import Ids, Items, Jobs, Labels, Vectors, open_items
from supquant.storage import write_file_atomically

OUTPUTS = (".html", ".csv", ".parquet")
"""Endings of the files that the command writes: a page or a table of findings."""

app = typer.Typer()


@app.command()
def audit(
    *,
    items: Items,
    outputs: Annotated[
        list[Path],
        typer.Option(
            "--output",
            "-o",
            help="File to write: a page .html, or all findings as .csv or .parquet. May be repeated.",
        ),
    ] = [Path("audit.html")],  # noqa: B006  # typer copies it
    vectors: Vectors = None,
    labels: Labels = None,
    ids: Ids = None,
    neighbours: Annotated[
        int, typer.Option(help="Number of nearest neighbours to compare with.", min=1)
    ] = 10,
    seed: Annotated[int, typer.Option(help="The same seed gives the same findings.")] = 0,
    jobs: Jobs = None,
) -> None:
    """Find labels that look wrong, duplicate rows, and classes that are confused or look like two."""
    for output in outputs:
        check_output(output, OUTPUTS)
    with_columns = has_columns(items)
    source = open_items(items, vectors, labels or True, ids, ["*"] if with_columns else None)
    print_line(f"Read {len(source):,} rows of {source.dim} numbers.", err)
    from supquant.auditing import audit as find  # noqa: PLC0415  # scikit-learn takes seconds to import: print first
    from supquant.auditing.pages import Shown  # noqa: PLC0415
    from supquant.auditing.report import audit_page  # noqa: PLC0415

    texts = Shown.of(source.metadata if with_columns else None).texts
    with progress_bars() as callback:
        found = find(
            source, texts=texts, n_neighbours=neighbours, random_state=seed, n_jobs=jobs, callback=callback
        )
    page = b""
    if any(output.suffix == ".html" for output in outputs):
        page = audit_page(found, source.metadata if with_columns else None, f"Audit of {items.name}").encode()
    with writing(*outputs):
        for output in outputs:
            if output.suffix == ".html":
                write_file_atomically(output, page)
            else:
                found.save(output)
    for line in str(found).splitlines():
        print_line(line)
    print_line(f"Wrote {', '.join(map(str, outputs))}.")
