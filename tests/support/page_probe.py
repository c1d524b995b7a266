"""A service whose page runs a script of a test, in a frame of any width.

A window of Chromium is never narrower than 500 pixels, a frame in it may be.
"""

import threading
import time
from contextlib import contextmanager

import uvicorn

FRAME = """<!doctype html><body style="margin: 0">
<iframe src="/probed{query}" style="width: {width}px; height: {height}px; border: 0"></iframe>
<script>addEventListener("message", (event) => {{ document.body.dataset.found = event.data }})</script></body>"""


def with_probe(app, script):
    """Return an ASGI application that also serves the page with a script, and frames around it."""

    async def answer(scope, receive, send):
        path = scope.get("path", "")
        if scope["type"] != "http" or not path.startswith(("/frame", "/probed")):
            await app(scope, receive, send)
            return
        if path.startswith("/frame"):
            _, width, height, *tab = path.strip("/").split("-")
            body = FRAME.format(width=width, height=height, query="#/" + tab[0] if tab else "").encode()
        else:
            parts = []

            async def keep(message):
                parts.append(message.get("body", b""))

            await app({**scope, "path": "/", "raw_path": b"/"}, receive, keep)
            body = b"".join(parts).replace(b"</body>", f"<script>{script}</script></body>".encode())
        headers = [
            (b"content-type", b"text/html; charset=utf-8"),
            (b"content-length", str(len(body)).encode()),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return answer


@contextmanager
def running(app):
    """Serve an application from a thread, and yield its address."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="on"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://localhost:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
