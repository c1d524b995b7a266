"""`supquant demo`: train on handwritten digits, print a table and write a page of pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from supquant.cli.console import print_line, print_table, progress_bars
from supquant.cli.ending import writing
from supquant.cli.files import check_output
from supquant.demo.digits import run_demo
from supquant.demo.page import demo_page
from supquant.storage import write_file_atomically

app = typer.Typer()


@app.command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="The page to write.")] = Path("demo.html"),
    seed: Annotated[int, typer.Option(help="Seed of the split and of training.", min=0)] = 0,
) -> None:
    """Train on handwritten digits, compare with product quantization, and write a page of pictures."""
    check_output(output)
    with progress_bars() as callback:
        found = run_demo(seed=seed, callback=callback)
    print_table(
        ["how an item is stored", "bytes per item", "MAP", "ms per query"],
        [
            [each.name, f"{each.bytes_per_item:.0f}", f"{each.map:.3f}", f"{each.query_ms:.2f}"]
            for each in found.contenders
        ],
        title=f"{found.n_queries} queries over {found.n_database} digits not seen in training",
    )
    page = demo_page(found)
    with writing(output):
        write_file_atomically(output, page.encode())
    print_line(f"Wrote {output}: open it in a browser.")
