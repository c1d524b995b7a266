import gzip
import hashlib
import io
import logging
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from supquant.errors import InputError
from supquant_lab.datasets import cifar10, load, mnist
from supquant_lab.datasets.files import checksum

pooch = pytest.importorskip("pooch")


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture
def server(tmp_path):
    """Serve a folder over HTTP; return the folder and its address."""
    folder = tmp_path / "served"
    folder.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@pytest.fixture
def served_mnist(server, own_folder, monkeypatch):
    """Three digits in four files on the server, under checksums that are right."""
    folder, url = server
    X, y = np.arange(3 * 784, dtype=np.uint8).reshape(3, 28, 28), np.array([7, 2, 1], dtype=np.uint8)
    parts = zip(mnist.IDX_FILES, (X[:2], y[:2], X[2:], y[2:]), strict=True)
    known = {}
    for name, array in parts:
        head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, dtype=">u4").tobytes()
        content = gzip.compress(head + array.tobytes())
        (folder / f"{name}.gz").write_bytes(content)
        known[name] = f"md5:{hashlib.md5(content).hexdigest()}"
    monkeypatch.setattr(mnist, "URL", url)
    monkeypatch.setattr(mnist, "IDX_FILES", known)
    monkeypatch.setattr(mnist, "CHECKSUM", checksum(X.reshape(3, -1), y))
    return folder


def test_files_are_fetched_only_when_asked_for(served_mnist, own_folder):
    with pytest.raises(InputError, match="Ask for a download"):
        load("mnist")
    assert not list(own_folder.iterdir())
    assert load("mnist", download=True).y.tolist() == [7, 2, 1]
    assert len(list(own_folder.iterdir())) == 4
    assert load("mnist").y.tolist() == [7, 2, 1]


def test_downloads_print_nothing(served_mnist, monkeypatch):
    printed = io.StringIO()
    logger = pooch.get_logger()
    monkeypatch.setattr(logger, "handlers", [logging.StreamHandler(printed)])
    level = logger.level
    load("mnist", download=True)
    assert printed.getvalue() == ""
    assert logger.level == level


@pytest.mark.parametrize("form", ["compressed", "plain"])
def test_nothing_is_fetched_where_the_data_are_there(form, served_mnist, own_folder, monkeypatch):
    load("mnist", download=True)
    if form == "plain":
        for path in list(own_folder.iterdir()):
            path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
            path.unlink()
    monkeypatch.setattr(mnist, "URL", "http://127.0.0.1:9/")
    assert load("mnist", download=True).y.tolist() == [7, 2, 1]


def test_file_with_another_checksum_is_not_kept(served_mnist, own_folder):
    name = "t10k-images-idx3-ubyte.gz"
    (served_mnist / name).write_bytes(b"something else")
    with pytest.raises(InputError, match=rf"^{name} could not be downloaded from http://.*hash"):
        load("mnist", download=True)
    assert not (own_folder / name).exists()


def test_a_broken_download_is_resumed(served_mnist, own_folder):
    last = served_mnist / "t10k-labels-idx1-ubyte.gz"
    content = last.read_bytes()
    last.unlink()
    with pytest.raises(InputError, match="could not be downloaded"):
        load("mnist", download=True)
    last.write_bytes(content)
    assert load("mnist", download=True).y.tolist() == [7, 2, 1]


def test_an_unreachable_server_is_a_plain_error(own_folder, monkeypatch):
    monkeypatch.setattr(cifar10, "URL", "http://127.0.0.1:9/")
    with pytest.raises(InputError) as caught:
        load("cifar10", download=True)
    assert "cifar-10-python.tar.gz could not be downloaded from http://127.0.0.1:9/" in str(caught.value)
    assert str(own_folder) in str(caught.value)


def test_archive_that_is_there_is_not_fetched(own_folder, monkeypatch):
    monkeypatch.setattr(cifar10, "URL", "http://127.0.0.1:9/")
    (own_folder / cifar10.ARCHIVE).write_bytes(b"")
    with pytest.raises(InputError, match="is damaged or not an archive"):
        load("cifar10", download=True)


@pytest.mark.parametrize("name", ["coco30k", "nuswide", "imagenet"])
def test_data_without_an_address_say_how_to_get_them(name, own_folder):
    with pytest.raises(InputError, match="was not found in"):
        load(name, download=True)
