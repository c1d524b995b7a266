"""The page of an index that changes meanwhile: what is gone is neither shown nor used, and work under way is not begun again."""

import html
import json
import re
import threading

import numpy as np
import pytest
from page_probe import running, with_probe

from supquant import CodeIndex, SupervisedQuantizer
from supquant.serve import looking, mapping
from supquant.serve.app import make_app
from supquant.serve.service import Service

PROBE = """
const until = async (test) => {
  for (let n = 0; n < 400; n++) {
    if (test()) return;
    await new Promise((go) => setTimeout(go, 20));
  }
  throw new Error("waited in vain: " + test);
};
const all = (selector) => [...document.querySelectorAll(selector)];
const shown = () => all("#answers .card").map((each) => each.item);
const remove = (ids) => ask("/v1/things/remove", {ids});
const exported = [];
URL.createObjectURL = (blob) => { exported.push(blob.text()); return "#"; };
HTMLAnchorElement.prototype.click = () => {};
HTMLCanvasElement.prototype.setPointerCapture = () => {};
addEventListener("load", async () => {
  const seen = {};
  try {
    await until(() => shown().length);
    const before = shown();
    await remove([before[0], before[2]]);
    all("#answers .card button")[0].click();
    await until(() => !document.getElementById("message").hidden);
    seen.message = document.getElementById("message").textContent;
    seen.query = document.getElementById("query").value;
    document.getElementById("query").value = before[1];
    document.querySelector("#form .main").click();
    await until(() => shown().length);
    seen.again = shown().some((each) => each === before[0] || each === before[2]);

    document.getElementById("tab-map").click();
    await until(() => all("#legend button").length);
    const canvas = document.getElementById("canvas"), edge = canvas.getBoundingClientRect();
    const fire = (kind, x, y) =>
      canvas.dispatchEvent(new PointerEvent(kind, {clientX: edge.left + x, clientY: edge.top + y, pointerId: 1}));
    fire("pointerdown", 0, 0); fire("pointermove", edge.width, edge.height); fire("pointerup", edge.width, edge.height);
    await until(() => !document.getElementById("export-map").hidden && all("#map-list button").length);
    seen.boxed = document.getElementById("map-title").textContent;
    seen.removed = points.ids.slice(5, 7);
    await remove(seen.removed);
    document.getElementById("export-map").click();
    await until(() => exported.length);
    seen.exported = (await exported[0]).split("\\n").slice(1, -1).map(Number);
    seen.left = document.getElementById("map-title").textContent;
    seen.changed = !document.getElementById("changed").hidden;
    seen.listed = all("#map-list button").map((each) => each.item);
    document.getElementById("again").click();
    await until(() => points && document.getElementById("changed").hidden);
    seen.points = points.ids.length;
  } catch (error) { seen.error = String(error); }
  parent.postMessage(JSON.stringify(seen), "*");
});
"""


def test_the_page_neither_shows_nor_exports_items_that_are_gone(browse, folder, monkeypatch):
    monkeypatch.setattr(mapping, "lays_out", lambda: False)
    with running(with_probe(make_app(Service({"things": folder}, n_jobs=1)), PROBE)) as address:
        opened = browse(f"{address}/frame-1280-900", "--window-size=1280,900")
    found = json.loads(html.unescape(re.search(r'data-found="([^"]*)"', opened.dom)[1]))
    assert "error" not in found, found
    assert "not in the index" in found["message"]
    assert found["query"] == ""
    assert not found["again"]
    assert found["boxed"] == "298 items selected"
    assert len(found["exported"]) == found["points"] == 296
    assert found["left"] == f"{found['points']} items selected"
    assert not {*found["removed"]} & {*found["exported"], *found["listed"]}
    assert found["changed"]


def test_a_change_does_not_begin_a_map_again_that_a_client_waits_for(service, monkeypatch):
    over, begun = threading.Event(), []

    def slow(index, *_):
        begun.append(len(index))
        over.wait(30)
        return {"ready": True}

    monkeypatch.setattr(looking, "PATIENCE", 0.05)
    monkeypatch.setattr(looking, "_map_of", slow)
    version = service.get("/v1/things").json()["version"]
    try:
        for row in range(3):
            assert not service.get("/v1/things/map").json()["ready"]
            assert service.post("/v1/things/remove", json={"ids": [row]}).status_code == 200
    finally:
        over.set()
    while not (found := service.get("/v1/things/map").json())["ready"]:
        pass
    assert found["version"] == version
    while (found := service.get("/v1/things/map").json())["version"] == version:
        pass
    assert begun == [300, 297]


def patiently(client, path):
    while not (found := client.get(path).json()).get("ready"):
        assert "error" not in found, found
    return found


@pytest.fixture(scope="module")
def named():
    """An index of items with texts as ids, of which a sixth is of a class that was named after the fit."""
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat(np.arange(6), 100))
    X = rng.normal(size=(6, 24))[y] + rng.normal(0, 0.35, (600, 24))
    labels = [f"class {each}" if each < 5 and row % 2 else None for row, each in enumerate(y)]
    sq = SupervisedQuantizer(8, n_codewords=64, max_iter=3, random_state=0).fit(X, labels)
    ids = [f"q{row}" for row in range(600)]
    index = CodeIndex(sq).add(X, ids=ids, metadata={"label": labels, "words": ["a text of an item"] * 600})
    members = [ids[row] for row in np.flatnonzero(y == 5)]
    return index.extend(members, ["refund"] * len(members)), y


def test_named_classes_colour_the_map_and_explain_answers(named, start, tmp_path, monkeypatch):
    monkeypatch.setattr(mapping, "lays_out", lambda: False)
    index, y = named
    index.save(tmp_path / "things")
    client = start({"things": tmp_path / "things"})
    places = patiently(client, "/v1/things/map")
    names = np.array([*places["labels"], None], dtype=object)
    looks = names[places["looks"]]
    assert (names[places["label"]][y == 5] == None).all()  # noqa: E711  # of each
    assert (looks[y == 5] == "refund").mean() > 0.9
    assert (looks[y < 5] == [f"class {each}" for each in y[y < 5]]).mean() > 0.9
    rows = [f"q{row}" for row in np.flatnonzero(y == 5)[:2]]
    found = client.post("/v1/things/explain", json={"query": rows[0], "ids": [rows[1]]}).json()
    assert found["classes"][0]["label"] == found["answers"][0]["looks"] == "refund"
    assert found["novelty"] < 0.5


def test_labels_of_an_index_with_texts_as_ids_are_audited(named, start, tmp_path):
    index, _ = named
    index.save(tmp_path / "things")
    client = start({"things": tmp_path / "things"})
    found = patiently(client, "/v1/things/audit")
    assert found["column"] == "label"
    assert all(isinstance(each["id"], str) for each in found["findings"]["unlabelled"])
