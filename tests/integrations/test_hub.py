"""Models on a stand-in for the Hugging Face hub, which answers on this machine what the client asks."""

import base64
import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

pytest.importorskip("huggingface_hub", reason="huggingface-hub is not installed")

from supquant import SupervisedQuantizer
from supquant.integrations.hub import from_pretrained, push_to_hub


class Hub(BaseHTTPRequestHandler):
    """Takes commits of small files, and gives the files of the last commit of a repository."""

    files: dict[str, bytes]
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        """Print nothing."""

    def answer(self, content, status=200, **headers):
        self.send_response(status)
        headers = {"Content-Length": str(len(content)), **headers}
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def do_POST(self):
        body, here = self.rfile.read(int(self.headers["Content-Length"])), f"http://{self.headers['Host']}"
        if self.path == "/api/repos/create":
            name = json.loads(body)
            found = {"url": f"{here}/{name['organization']}/{name['name']}"}
        elif self.path.endswith("/preupload/main"):
            asked = [each["path"] for each in json.loads(body)["files"]]
            found = {
                "files": [{"path": path, "uploadMode": "regular", "shouldIgnore": False} for path in asked]
            }
        elif self.path == "/api/validate-yaml":  # the card is right
            found = {"errors": [], "warnings": []}
        elif self.path.endswith("/commit/main"):
            repo = self.path.removeprefix("/api/models/").removesuffix("/commit/main")
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    self.files[f"{repo}/{line['value']['path']}"] = base64.b64decode(line["value"]["content"])
            found = {"commitUrl": f"{here}/{repo}/commit/1", "commitOid": "1" * 40, "success": True}
        else:
            self.answer(b"", 404)
            return
        self.answer(json.dumps(found).encode(), Content_Type="application/json")

    def do_GET(self):
        if self.path.startswith("/api/models/"):  # what is there, before a commit
            self.answer(b'{"id": "any", "sha": "0", "siblings": []}', Content_Type="application/json")
            return
        content = self.files.get(self.path.strip("/").replace("/resolve/main", ""))
        if content is None:
            self.answer(b"", 404, X_Error_Code="EntryNotFound")
        else:
            self.answer(content, ETag=f'"{hashlib.sha1(content).hexdigest()}"', X_Repo_Commit="1" * 40)

    def do_HEAD(self):
        self.do_GET()


@pytest.fixture
def hub():
    """The address of a hub, and its files."""
    handler = type("OneHub", (Hub,), {"files": {}})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", handler.files
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def model(clusters):
    X, y = clusters
    return SupervisedQuantizer(2, n_codewords=8, max_iter=1, random_state=0).fit(X, y)


def test_a_pushed_model_is_the_same_from_the_hub(hub, model, clusters, tmp_path):
    address, files = hub
    assert push_to_hub(model, "you/clusters", token="hf_none", endpoint=address).endswith("/commit/1")
    assert set(files) == {"you/clusters/model.safetensors", "you/clusters/README.md"}
    card = files["you/clusters/README.md"].decode()
    assert "A `SupervisedQuantizer` for vectors of 8 dimensions, in codes of 2 bytes." in card
    assert 'from_pretrained("you/clusters")' in card
    again = from_pretrained("you/clusters", endpoint=address, cache_dir=tmp_path)
    np.testing.assert_array_equal(again.encode(clusters[0]), model.encode(clusters[0]))
    assert again.get_params() == model.get_params()


def test_a_folder_is_a_repository_too(model, clusters, tmp_path):
    model.save(tmp_path / "model.safetensors")
    again = from_pretrained(str(tmp_path))
    np.testing.assert_array_equal(again.encode(clusters[0]), model.encode(clusters[0]))
