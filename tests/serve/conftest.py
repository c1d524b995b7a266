"""Small indexes that are served, and a way to ask the service in this process."""

import numpy as np
import pytest
from starlette.testclient import TestClient

from supquant import CodeIndex, SupervisedQuantizer
from supquant.serve.app import make_app
from supquant.serve.limits import Limits
from supquant.serve.service import Service


@pytest.fixture(scope="session")
def served_model(clusters):
    X, y = clusters
    return SupervisedQuantizer(2, n_codewords=16, max_iter=2, random_state=0).fit(X, y)


@pytest.fixture
def folder(served_model, clusters, tmp_path):
    """An index of 300 rows, numbered, with the columns `colour` and `price`."""
    X, _ = clusters
    metadata = {"colour": ["red", "blue", "green"] * 100, "price": np.arange(300)}
    CodeIndex(served_model).add(X, metadata=metadata).save(tmp_path / "things")
    return tmp_path / "things"


@pytest.fixture
def start():
    """Return a function that starts the service of some folders in this process, and returns a client of it."""
    running = []

    def begin(folders, *, watched=False, tokens=None, encoders=None, **limits):
        service = Service(folders, Limits(**limits), tokens, n_jobs=1, encoders=encoders)
        client = TestClient(make_app(service, watched=watched), base_url="http://localhost")
        client.__enter__()
        client.service = service
        running.append(client)
        return client

    yield begin
    for client in running:
        client.__exit__(None, None, None)


@pytest.fixture
def service(start, folder):
    """A client of a service of the index `things`."""
    return start({"things": folder})
