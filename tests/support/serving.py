"""Services that run in a thread of the tests."""

import threading
import time
from contextlib import contextmanager

from supquant.serve.limits import Limits
from supquant.serve.running import address_of, make_server, open_socket
from supquant.serve.service import Service


@contextmanager
def running(folders, *, watched=False, tokens=None, encoders=None, **limits):
    """Serve indexes in a thread, and return the address of the service and the service."""
    service = Service(folders, Limits(**limits), tokens, n_jobs=1, encoders=encoders)
    server = make_server(service, watched=watched)
    with open_socket("127.0.0.1", 0, None) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        while not server.started:
            time.sleep(0.001)
        try:
            yield address_of(listening).rstrip("/"), service
        finally:
            server.should_exit = True
            thread.join()
