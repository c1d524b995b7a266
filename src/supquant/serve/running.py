"""Requests to answers: where a service listens, and how it starts and stops."""

from __future__ import annotations

import ipaddress
import math
import signal
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

import uvicorn

from supquant.errors import InputError
from supquant.serve.app import make_app
from supquant.serve.calls import Endpoint
from supquant.serve.connections import service_protocol
from supquant.serve.searching import search
from supquant.serve.service import Service
from supquant.serve.tokens import Tokens

__all__ = ["address_of", "make_server", "name_folders", "open_socket", "run_service"]

_KEEP_ALIVE = 75
"""The time after which an idle connection is closed, in seconds. Proxies close theirs sooner."""

_MAX_CONNECTIONS = 1000
"""The maximum number of simultaneous connections."""

_BACKLOG = 1024
"""The maximum number of connections that wait to be accepted."""


def name_folders(texts: Sequence[str]) -> dict[str, Path]:
    """Return the folders of indexes by name.

    Parameters
    ----------
    texts : sequence of str
        Folders, or ``NAME=FOLDER``. The default name is that of the folder, without ``.index``.

    Raises
    ------
    InputError
        If two indexes have the same name.

    Examples
    --------
    >>> name_folders(["shoes.index", "hats=/data/h7"])
    {'shoes': PosixPath('shoes.index'), 'hats': PosixPath('/data/h7')}
    """
    found: dict[str, Path] = {}
    for text in texts:
        name, equals, folder = text.partition("=")
        path = Path(folder if equals else text)
        name = name if equals else path.resolve().name.removesuffix(".index")
        if name in found:
            raise InputError(f"two indexes are named {name!r}: give another name as NAME=FOLDER")
        found[name] = path
    return found


def open_socket(host: str, port: int, tokens: Tokens | None) -> socket.socket:
    """Return a listening socket.

    Parameters
    ----------
    host : str
        The address to listen on.
    port : int
        The port; 0 picks a free one.
    tokens : Tokens or None
        None allows only addresses of this machine.

    Raises
    ------
    InputError
        If there are no tokens but other machines can reach the address, or if it cannot be listened on.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise InputError(f"cannot listen on {host}: {error.strerror}") from error
    if tokens is None and not ipaddress.ip_address(address[0]).is_loopback:
        raise InputError(
            f"without tokens, the service only listens on 127.0.0.1: give --token-file to listen on {host}"
        )
    try:
        return socket.create_server((str(address[0]), port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise InputError(f"cannot listen on {host}, port {port}: {error.strerror}") from error


def run_service(
    service: Service,
    listening: socket.socket,
    *,
    watched: bool = False,
    on_start: Callable[[str], None] = lambda _: None,
) -> None:
    """Answer requests until SIGTERM or Ctrl-C, then finish those under way, for at most a second longer than the deadline.

    Threads that have not finished by then keep the process from ending; `Service.closed` says so.

    Parameters
    ----------
    service : Service
        The indexes.
    listening : socket
        As `open_socket` returns it.
    watched : bool, default=False
        Whether to pick up what other processes save.
    on_start : callable, default=None
        Gets the address of the service.
    """
    server = make_server(service, watched=watched)

    def end(_number: int, _frame: FrameType | None) -> None:
        # Until uvicorn listens to signals, and when it has finished and raises them again.
        server.should_exit = True

    before = signal.signal(signal.SIGTERM, end)
    try:
        on_start(address_of(listening))
        server.run(sockets=[listening])
    finally:
        signal.signal(signal.SIGTERM, before)


def make_server(service: Service, *, watched: bool = False) -> uvicorn.Server:
    """Return the server of a service; the parameters are those of `run_service`."""
    limits = service.limits
    config = uvicorn.Config(
        make_app(service, watched=watched),
        loop="auto",
        http=service_protocol(
            Endpoint(search, service), service.indexes, limits.deadline, limits.max_body, _MAX_CONNECTIONS
        ),
        ws="none",
        lifespan="on",
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=math.ceil(limits.deadline),
    )
    return _Server(config, service)


class _Server(uvicorn.Server):
    """A server that tells its service when it begins to end."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._service.begin_end()
        await super().shutdown(sockets)


def address_of(listening: socket.socket) -> str:
    """Return the address of a socket for a browser."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
