"""`supquant discover`: show the classes that nobody has labelled, and write a table to name them in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from supquant.cli.console import err, print_line, progress_bars
from supquant.cli.ending import writing
from supquant.cli.files import check_output, has_columns
from supquant.cli.options import Ids, Items, Jobs, Labels, Vectors, open_items
from supquant.errors import InputError
from supquant.storage import write_file_atomically

OUTPUTS = (".html", ".csv")
"""Endings of the files that the command writes: a page, or a table of items."""

app = typer.Typer()


@app.command()
def discover(
    *,
    items: Items,
    model: Annotated[
        Path | None,
        typer.Argument(
            help="A model file or an index, fitted to rows with and without labels. By default, a model is fitted to the items.",
            show_default=False,
        ),
    ] = None,
    outputs: Annotated[
        list[Path],
        typer.Option(
            "--output",
            "-o",
            help="File to write: a page .html, or a table .csv of the items and their groups. May be repeated.",
        ),
    ] = [Path("found.html"), Path("found.csv")],  # noqa: B006  # typer copies it
    vectors: Vectors = None,
    labels: Labels = None,
    ids: Ids = None,
    names: Annotated[
        list[str] | None,
        typer.Option(
            "--name", help="A name for a group, as 3=refund, written to the table. May be repeated."
        ),
    ] = None,
    save: Annotated[
        Path | None, typer.Option(help="Without MODEL: the file to write the fitted model to.")
    ] = None,
    bits: Annotated[int, typer.Option(help="Without MODEL: the length of a code, a multiple of 8.")] = 64,
    seed: Annotated[int, typer.Option(help="Without MODEL: the same seed finds the same classes.")] = 0,
    jobs: Jobs = None,
) -> None:
    """Find the classes that nobody has labelled, among items without labels, and write them down to be named."""
    for output in outputs:
        check_output(output, OUTPUTS)
    given = _read_names(names)
    if save is not None:
        check_output(save)
        if model is not None:
            raise InputError(f"--save writes the model that is fitted without MODEL, but {model} was given")
    with_columns = has_columns(items)
    # A model knows its labels, but a fit must read them.
    source = open_items(
        items, vectors, labels or (True if model is None else None), ids, ["*"] if with_columns else None
    )
    print_line(f"Read {len(source):,} rows of {source.dim} numbers.", err)
    X, y = source.X, source.labels
    codec = _codec_of(model) if model is not None else _fitted(X, y, save, bits, seed, jobs)
    from supquant.auditing.discovery import discover_items, discovery_page  # noqa: PLC0415  # slow to import
    from supquant.inputs.unlabelled import labelled_rows  # noqa: PLC0415

    known = None
    if y is not None:
        known = labelled_rows(y, missing=True)[1]
        known = np.ones(len(source), dtype=bool) if known is None else known
    found = discover_items(codec, X, known=known, ids=source.ids, n_jobs=jobs)
    _check_names(given, [group.number for group in found.groups])
    metadata = source.metadata if with_columns else None
    source_of_rows = "--by-id" if model is not None and model.is_dir() else f"--vectors {items}"
    command = f"supquant extend {model or save or 'MODEL'} {{}} {source_of_rows}"
    page = b""
    if any(output.suffix == ".html" for output in outputs):
        page = discovery_page(
            found,
            metadata,
            f"Found classes of {items.name}",
            labels=given,
            extend=command.format("labels.csv"),
        ).encode()
    with writing(*outputs):
        for output in outputs:
            if output.suffix == ".html":
                write_file_atomically(output, page)
            else:
                found.save(output, given, metadata)
    for line in str(found).splitlines():
        print_line(line)
    print_line(f"Wrote {', '.join(map(str, outputs))}.")
    table = next((output for output in outputs if output.suffix == ".csv"), None)
    if found.groups and table is not None:
        what = "Now" if given else "Fill in its column `label` for the groups that you recognise, then"
        print_line(f"{what}: {command.format(table)}")


def _read_names(texts: list[str] | None) -> dict[int, str]:
    """Return the names of groups in texts such as 3=refund.

    Examples
    --------
    >>> _read_names(["3=refund", "0 = lost card"])
    {3: 'refund', 0: 'lost card'}
    """
    names = {}
    for text in texts or ():
        number, equals, name = (part.strip() for part in text.partition("="))
        if not equals or not number.isdecimal() or not name:
            raise InputError(f"a name is given as GROUP=NAME, such as 3=refund; got {text!r}")
        names[int(number)] = name
    return names


def _check_names(names: dict[int, str], groups: list[int]) -> None:
    if unknown := sorted(names.keys() - set(groups)):
        raise InputError(f"there is no group {unknown[0]}; the groups with items are {sorted(groups)}")


def _codec_of(path: Path) -> Any:
    """Return the codec of a model file or of an index."""
    if path.is_dir():
        from supquant.index import CodeIndex  # noqa: PLC0415

        return CodeIndex.load(path).codec
    from supquant.models import load_model  # noqa: PLC0415

    return load_model(path).codec_


def _fitted(X: Any, y: Any, save: Path | None, bits: int, seed: int, jobs: int | None) -> Any:
    """Return the codec of a model that is fitted to the items, and write the model to a file if one is named."""
    from supquant.models import make_estimator  # noqa: PLC0415  # scikit-learn takes seconds to import

    estimator: Any = make_estimator("sq", bits, {"random_state": seed, "n_jobs": jobs})
    with progress_bars() as callback:
        estimator.set_params(callback=callback).fit(X, y)
    if save is not None:
        estimator.save(save)
        print_line(f"Wrote {save}.", err)
    return estimator.codec_
