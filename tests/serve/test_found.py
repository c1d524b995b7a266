"""A service lists the classes that nobody has labelled, and learns their names: by requests, and on its page."""

import html
import json
import re

import numpy as np
import pytest
from page_probe import running, with_probe

from supquant import Client, CodeIndex, SupervisedQuantizer
from supquant.serve.app import make_app
from supquant.serve.service import Service

PROBE = """
const wait = async (test) => {
  for (let n = 0; n < 400; n++) {
    const found = test();
    if (found) return found;
    await new Promise((go) => setTimeout(go, 20));
  }
  throw new Error("waited in vain: " + test);
};
const all = (selector) => [...document.querySelectorAll(selector)];
addEventListener("load", async () => {
  const seen = {};
  try {
    await wait(() => all("#answers .card").length);
    document.getElementById("tab-found").click();
    await wait(() => all("#groups article").length);
    seen.groups = all("#groups article").length;
    seen.first = all("#groups article")[0].textContent;
    seen.items = all("#groups article")[0].querySelectorAll(".thumbs button").length;
    seen.fits = document.documentElement.scrollWidth <= innerWidth;
    all("#groups input")[0].value = "named here";
    all("#groups form button")[0].click();
    await wait(() => document.getElementById("found-told").textContent.includes("named here"));
    seen.told = document.getElementById("found-told").textContent;
    seen.left = all("#groups article").length;
    seen.error = document.getElementById("message").hidden ? null : document.getElementById("message").textContent;
  } catch (error) { seen.error = String(error); }
  parent.postMessage(JSON.stringify(seen), "*");
});
"""


@pytest.fixture(scope="module")
def grown():
    """Rows of eight classes, of which the last two are never labelled, their classes, and a model."""
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat(np.arange(8), 120))
    X = rng.normal(size=(8, 24))[y] + rng.normal(0, 0.35, (len(y), 24))
    labels = [f"class {each}" if each < 6 and row % 2 else None for row, each in enumerate(y)]
    return X, y, SupervisedQuantizer(8, n_codewords=64, max_iter=3, random_state=0).fit(X, labels)


@pytest.fixture
def grown_folder(grown, tmp_path):
    X, y, sq = grown
    texts = [f"a text about the class {each}" for each in y]
    CodeIndex(sq).add(X, metadata={"words": texts}).save(tmp_path / "things")
    return tmp_path / "things"


def test_groups_of_items_are_listed_and_get_a_name(grown, grown_folder, start):
    X, y, _ = grown
    client = start({"things": grown_folder})
    groups = client.get("/v1/things/found").json()["groups"]
    assert len(groups) == 2
    assert {tuple(np.unique(y[group["ids"][:50]])) for group in groups} == {(6,), (7,)}
    assert groups[0]["items"] >= groups[1]["items"] > 100
    assert groups[0]["novelty"] > 0.8
    assert groups[0]["nearest"][0]["label"].startswith("class ")
    codes = {path.name: path.read_bytes() for path in grown_folder.glob("codes-*")}
    ids = groups[0]["ids"]
    answer = client.post("/v1/things/extend", json={"ids": ids, "labels": ["refund"] * len(ids)})
    assert answer.status_code == 200, answer.text
    assert answer.json() == {"rows": len(X), "labels": [*(f"class {each}" for each in range(6)), "refund"]}
    assert [each["number"] for each in client.get("/v1/things/found").json()["groups"]] == [
        groups[1]["number"]
    ]
    saved = CodeIndex.load(grown_folder)
    assert saved.codec.classes[-1] == "refund"
    assert {path.name: path.read_bytes() for path in grown_folder.glob("codes-*")} == codes != {}
    again = client.post("/v1/things/extend", json={"ids": ids[:1], "labels": ["refund"]})
    assert again.status_code == 422
    assert "which the model knows" in again.json()["error"]


def test_an_index_of_a_model_without_found_classes_has_no_groups(service):
    version = service.get("/v1/things").json()["version"]
    assert service.get("/v1/things/found").json() == {"ready": True, "groups": [], "version": version}


@pytest.mark.parametrize("width", [1280, 390])
def test_a_group_is_named_on_the_page(browse, grown_folder, width):
    service = Service({"things": grown_folder}, n_jobs=1)
    with running(with_probe(make_app(service), PROBE)) as address:
        opened = browse(f"{address}/frame-{width}-900", f"--window-size={max(width, 500)},900")
    found = json.loads(html.unescape(re.search(r'data-found="([^"]*)"', opened.dom)[1]))
    assert found["error"] is None, found
    assert found["groups"] == 2
    assert found["items"] == 12
    assert "a text about the class" in found["first"]
    assert found["fits"]
    assert found["told"].startswith("named here: learned from ")
    assert found["left"] == 1
    assert opened.console == []


def test_a_client_names_a_group(grown, grown_folder):
    X, y, sq = grown
    members = sq.found_.members[1][:20]
    with running(make_app(Service({"things": grown_folder}, n_jobs=1))) as address:
        client = Client(address)
        assert client.extend(members, ["late"] * len(members)) is client
        ids = client.search(X[members[:3]], 40)[1]
    assert CodeIndex.load(grown_folder).codec.classes[-1] == "late"
    assert np.mean(y[ids] == y[members[0]]) > 0.9
