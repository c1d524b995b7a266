"""Report: ``supquant`` whose service reads requests by uvicorn's own protocol, for comparison.

Run it as ``python -m supquant_lab.bench.serving.uvicorns_own serve things.index``.
"""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from supquant.cli import main
from supquant.serve import running


def use_uvicorns_own() -> None:
    """Let services that start from now on in this process use the protocol of uvicorn."""
    setattr(running, "service_protocol", lambda *_: HttpToolsProtocol)  # noqa: B010  # a name that it imports


if __name__ == "__main__":
    use_uvicorns_own()
    main()
