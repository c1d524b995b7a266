"""The page in a browser: search, filter, map, selection, export and audit, on a desktop and a phone, with a silent console."""

import base64
import gc
import html
import json
import re
import threading
import time
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from page_probe import running, with_probe

from supquant import CodeIndex, SupervisedQuantizer, audit
from supquant.demo.collection import encode_digits
from supquant.demo.pictures import png
from supquant.serve import looking
from supquant.serve.app import make_app
from supquant.serve.service import Service

SCRIPT = (Path(__file__).parent / "page_probe.js").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def address(digits, tmp_path_factory):
    """A service of 400 digits, of which two have wrong labels; their pictures are in a file next to the index."""
    X, y = digits
    model = SupervisedQuantizer(4, n_codewords=64, max_iter=2, random_state=0).fit(X[400:1200], y[400:1200])
    folder = tmp_path_factory.mktemp("page") / "digits"
    given = y[:400].copy()
    given[[5, 9]] = (given[[5, 9]] + 3) % 10
    CodeIndex(model).add(X[:400], metadata={"digit": given}).save(folder)
    with folder.with_name("digits.jsonl").open("w") as file:
        for row in range(400):
            picture = png(X[row].reshape(8, 8))
            file.write(json.dumps({"id": row, "picture": _uri(picture)}) + "\n")
    service = Service(
        {"digits": folder},
        n_jobs=1,
        encoders={"digits": {"picture": encode_digits, "text": lambda texts: X[: len(texts)]}},
    )
    with running(with_probe(make_app(service), SCRIPT)) as found:
        while not _read(found, "/v1/digits/audit")["ready"]:
            time.sleep(0.1)
        yield found


def _uri(picture):
    return "data:image/png;base64," + base64.b64encode(picture).decode()


def _read(address, path):
    with urllib.request.urlopen(address + path) as answer:
        return json.load(answer)


@pytest.mark.parametrize("width", [1280, 390])
def test_everything_on_the_page_works(browse, address, width):
    opened = browse(f"{address}/frame-{width}-900", f"--window-size={max(width, 500)},900")
    found = json.loads(html.unescape(re.search(r'data-found="([^"]*)"', opened.dom)[1]))
    assert "error" not in found, found
    assert found["width"] == width
    assert all(found["fits"])
    assert found["answers"] == 12
    assert found["pictures"]
    assert "looks like" in found["query"]
    assert "position: cosine" in found["why"]
    assert found["filtered"] == ["3"] * 12
    assert "no_such" in found["refused"]
    assert "A vector of 64 numbers" in found["vector"]
    assert found["picture"].startswith("A picturelooks like")
    assert "like 1 (" in found["picture"]
    assert found["fields"] == [True, True]
    assert found["order"][:3] == ["text-field", "picture-field", "query-name"]
    assert found["stale"] == ""
    assert found["legend"] == [str(each) for each in range(10)]
    assert found["clicked"] == "Nearest to item 7"
    assert found["boxed"] == "400 items selected"
    assert re.fullmatch(r"\d, item \d+", found["keyed"])
    assert found["kinds"][0] == "label"
    assert found["suspects"] >= 2
    assert found["table"]
    assert found["chosen"] == "2 selected"
    assert found["classes"] == 10
    first, second = (text.split() for text in found["exported"])
    assert first == ["id", *map(str, range(400))]
    assert len(second) == 3
    assert opened.console == []


def test_findings_in_the_file_next_to_the_index_replace_those_of_codes(
    digits, served_model, clusters, start, tmp_path
):
    X, y = clusters
    labels = np.where(np.arange(len(y)) == 4, (y + 1) % 3, y)
    CodeIndex(served_model).add(X, metadata={"label": labels}).save(tmp_path / "things")
    audit(X, labels, n_jobs=1).save(tmp_path / "things.audit.parquet")
    client = start({"things": tmp_path / "things"})
    found = _patiently(client, "/v1/things/audit")
    assert found["source"] == "file"
    assert found["column"] == "label"
    assert found["findings"]["label"][0]["row"] == 4


def test_map_and_audit_refuse_unknown_columns(service):
    for path in ("map", "audit"):
        answer = service.get(f"/v1/things/{path}", params={"label": "no_such"})
        assert answer.status_code == 422
        assert "label must be a column: colour, price" in answer.json()["error"]
    answer = service.get("/v1/things/audit")
    assert answer.status_code == 422
    assert "no column has labels" in answer.json()["error"]
    places = _patiently(service, "/v1/things/map")
    assert places["column"] is None
    assert len(places["x"]) == 300
    assert set(places["labels"]) == {0, 1, 2}


def test_an_error_that_no_request_waits_for_is_not_logged(service, monkeypatch, caplog):
    answered = threading.Event()

    def fail_after_the_answer(*_):
        answered.wait()
        raise RuntimeError("nobody waits for this")

    monkeypatch.setattr(looking, "_audit_of", fail_after_the_answer)
    monkeypatch.setattr(looking, "PATIENCE", 0)
    assert not service.get("/v1/things/audit").json()["ready"]
    works = looking._begun[service.service.indexes["things"].version]
    answered.set()
    while (fail_after_the_answer, None) in works:  # it is forgotten when it fails
        time.sleep(0.001)
    works.clear()
    gc.collect()  # asyncio logs an error that nobody has looked at when its task is deleted
    assert "nobody waits for this" not in caplog.text


def test_an_explanation_names_the_class_of_the_query_and_how_near_answers_are(service, clusters):
    X, y = clusters
    same, other = np.flatnonzero(y == y[0])[1], np.flatnonzero(y != y[0])[0]
    for query in (0, X[0].tolist()):
        found = service.post(
            "/v1/things/explain", json={"query": query, "ids": [int(same), int(other)]}
        ).json()
        assert found["classes"][0]["label"] == y[0]
        assert found["answers"][0]["classes"][0]["label"] == y[0]
        assert -1 <= found["answers"][1]["near"] <= 1


def test_an_item_looks_as_certain_as_its_vector(digits, start, tmp_path):
    X, y = digits
    model = SupervisedQuantizer(4, n_codewords=64, max_iter=2, random_state=0).fit(X[:400], y[:400])
    CodeIndex(model).add(X[400:500]).save(tmp_path / "digits")
    client = start({"digits": tmp_path / "digits"})
    top = np.zeros((100, 2))
    for row in range(100):
        for column, query in enumerate((row, X[400 + row].tolist())):
            found = client.post("/v1/digits/explain", json={"query": query, "ids": []}).json()
            assert 0 <= found["novelty"] <= 1
            top[row, column] = max((each["share"] for each in found["classes"]), default=0)
    # A code is coarser than its vector: .88 and .94. Without dividing by 1 - novelty, it would be .79.
    assert abs(top.mean(axis=0)[0] - top.mean(axis=0)[1]) < 0.1


def _patiently(client, path):
    while not (found := client.get(path).json()).get("ready"):
        assert "error" not in found, found
    return found


def test_an_exported_id_is_no_formula(browse, tmp_path):
    script = (Path(looking.__file__).parent / "page.js").read_text(encoding="utf-8")
    function = re.search(r"function csvCell.*?\n}\n", script, re.DOTALL)[0]
    ids = ["=cmd|' /C calc'!A0", "+1", "-1", -1, "@x", "\tx", 'a "b"', "a,b", "plain", 7]
    page = tmp_path / "cells.html"
    page.write_text(
        f"<body><script>{function} document.body.dataset.found = JSON.stringify({json.dumps(ids)}.map(csvCell))</script>"
    )
    found = json.loads(html.unescape(re.search(r'data-found="([^"]*)"', browse(page).dom)[1]))
    assert found == [
        "'=cmd|' /C calc'!A0",
        "'+1",
        "'-1",
        "-1",
        "'@x",
        "'\tx",
        '"a ""b"""',
        '"a,b"',
        "plain",
        "7",
    ]


def test_work_under_way_says_how_far_it_has_come(service, monkeypatch):
    going, over = threading.Event(), threading.Event()

    def slow(_index, _items, _wanted, course):
        course.at("judging labels", 0.5)
        going.set()
        over.wait(30)
        return {"ready": True}

    monkeypatch.setattr(looking, "_audit_of", slow)
    monkeypatch.setattr(looking, "PATIENCE", 0.01)
    try:
        service.get("/v1/things/audit")
        going.wait(30)
        found = service.get("/v1/things/audit").json()
    finally:
        over.set()
    assert found == {"ready": False, "stage": "judging labels", "done": 0.5}


def test_the_page_of_the_api_shows_every_operation(browse, address):
    opened = browse(f"{address}/docs")
    for path, methods in _read(address, "/openapi.json")["paths"].items():
        assert opened.dom.count(f'data-path="{path}"') == len(methods)
    assert "required" in opened.dom
    assert opened.console == []
