"""`supquant serve`: answer searches and changes of indexes over HTTP."""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from supquant.cli.console import err, print_line
from supquant.cli.ending import keeping_result
from supquant.cli.options import Device, choose_device
from supquant.errors import InputError
from supquant.serve.encoding import load_encoders
from supquant.serve.limits import Limits
from supquant.serve.running import name_folders, open_socket, run_service
from supquant.serve.service import Service
from supquant.serve.tokens import read_tokens

app = typer.Typer()

_DEFAULTS = Limits()


@app.command()
def serve(
    *,
    folders: Annotated[
        list[str] | None,
        typer.Argument(help="Folders of indexes, or NAME=FOLDER to name one.", show_default=False),
    ] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Serve handwritten digits.")] = False,
    host: Annotated[
        str, typer.Option(help="Address to listen on. One that other machines can reach needs a token file.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="Port to listen on; 0 takes a free one.", min=0, max=65535)
    ] = 8000,
    token_file: Annotated[
        Path | None, typer.Option(help="File with a line 'read: TOKEN' and a line 'write: TOKEN'.")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Reload indexes that other processes save.")] = False,
    encoder: Annotated[
        list[str] | None,
        typer.Option(
            help="Function that encodes queries: [INDEX=]KIND:MODULE:FUNCTION, KIND text or picture.",
            show_default=False,
        ),
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Threads per scan; all cores by default.")] = None,
    max_batch: Annotated[int, typer.Option(help="Maximum number of queries per scan.")] = _DEFAULTS.max_batch,
    max_wait_ms: Annotated[
        float, typer.Option(help="Milliseconds that a busy service waits for more queries.")
    ] = _DEFAULTS.max_wait_ms,
    max_body: Annotated[int, typer.Option(help="Maximum size of a request in bytes.")] = _DEFAULTS.max_body,
    max_k: Annotated[int, typer.Option(help="Maximum number of answers to a query.")] = _DEFAULTS.max_k,
    max_queue: Annotated[
        int, typer.Option(help="Maximum number of waiting requests per index.")
    ] = _DEFAULTS.max_queue,
    deadline: Annotated[
        float, typer.Option(help="Maximum time of a request in seconds.")
    ] = _DEFAULTS.deadline,
    device: Device = "cpu",
) -> None:
    """Answer searches and changes of indexes over HTTP, until SIGTERM or Ctrl-C."""
    choose_device(device)
    limits = Limits(
        max_body=max_body,
        max_k=max_k,
        max_queue=max_queue,
        max_batch=max_batch,
        max_wait_ms=max_wait_ms,
        deadline=deadline,
    )
    tokens = None if token_file is None else read_tokens(token_file)
    if not folders and not demo:
        raise InputError("give the folder of an index, or --demo")
    with ExitStack() as stack:
        named = name_folders(folders or [])
        listening = stack.enter_context(open_socket(host, port, tokens))
        if demo:
            from supquant.demo.collection import encode_digits, save_digits  # noqa: PLC0415  # scikit-learn is slow to import

            place = stack.enter_context(tempfile.TemporaryDirectory(prefix="supquant-demo-"))
            named["digits"] = Path(place) / "digits"
            save_digits(named["digits"])
        encoders = load_encoders(encoder or [], list(named))
        if demo:
            encoders["digits"].setdefault("picture", encode_digits)
        service = Service(named, limits, tokens, jobs, encoders)
        names = ", ".join(
            f"{name} ({len(each.version.index):,} rows)" for name, each in service.indexes.items()
        )
        with keeping_result(lambda: True):  # it finishes what it has begun to answer
            run_service(
                service,
                listening,
                watched=watch,
                on_start=lambda address: print_line(f"Serving {names} at {address}"),
            )
    if not service.closed:
        err.print("Some work did not end within the deadline, and was given up.")
        os._exit(1)  # it would keep the process alive for as long as it takes
