"""What a service answers, and what it refuses."""

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from supquant import CodeIndex, InputError
from supquant.serve.tokens import Tokens, read_tokens

READ, WRITE = "read-0123456789abcdef", "write-0123456789abcdef"
OCTETS = {"content-type": "application/octet-stream"}


def error_of(answer, status):
    """The one line of a refused request."""
    assert answer.status_code == status, answer.text
    assert list(answer.json()) == ["error"]
    assert "\n" not in answer.json()["error"]
    return answer.json()["error"]


def test_a_search_answers_as_the_index_does(service, folder, clusters):
    X, _ = clusters
    index = CodeIndex.load(folder)
    scores, ids = index.search(X[:3], 5)
    found = service.post("/v1/things/search", json={"queries": X[:3].tolist(), "k": 5}).json()
    assert found["ids"] == ids.tolist()
    assert np.array_equal(np.array(found["scores"], np.float32), scores)
    one = service.post("/v1/things/search", json={"query": X[0].tolist(), "k": 5}).json()
    assert one == {"ids": found["ids"][0], "scores": found["scores"][0]}
    as_bytes = service.post("/v1/things/search?k=5", content=X[:3].tobytes(), headers=OCTETS)
    assert as_bytes.json() == found
    position = index.search(X[:1], 5, ranking="position", where="colour = 'red'")[1].tolist()
    asked = {"queries": X[:1].tolist(), "k": 5, "ranking": "position", "where": "colour = 'red'"}
    assert service.post("/v1/things/search", json=asked).json()["ids"] == position


def test_answers_have_columns_and_stop_at_the_threshold(service, folder, clusters):
    X, _ = clusters
    asked = {"query": X[0].tolist(), "k": 300, "columns": ["price"], "threshold": 0.5}
    found = service.post("/v1/things/search", json=asked).json()
    scores, ids = CodeIndex.load(folder).search(X[0], 300)
    n_good = int((scores >= 0.5).sum())
    assert 0 < n_good < 300
    assert found["ids"] == ids[:n_good].tolist() == found["columns"]["price"]


def test_a_search_for_items_like_one_takes_its_id(service):
    found = service.post("/v1/things/search", json={"query": 7, "k": 300}).json()
    assert 7 in found["ids"]
    assert error_of(service.post("/v1/things/search", json={"query": 999}), 422).startswith(
        "these ids are not"
    )


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"{", 400, "the body is not JSON"),
        (b'{"query": [NaN]}', 400, "the body is not JSON"),
        (b"[]", 422, "must be a JSON object"),
        (b"{}", 422, "either a query, a text or a picture"),
        (b'{"query": [1, 2]}', 422, "query must be lists of 8 numbers"),
        (b'{"query": [1e99, 0, 0, 0, 0, 0, 0, 0]}', 422, "NaN, infinity or numbers beyond float32"),
        (b'{"queries": [[1], [1, 2]]}', 422, "of the same length"),
        (b'{"queries": ["a"]}', 422, "lists of numbers"),
        (b'{"queries": "%%"}', 422, "base64"),
        (b'{"query": 1, "k": 1000000}', 422, "k must be a whole number from 1 to 10,000"),
        (b'{"query": 1, "k": true}', 422, "k must be a whole number"),
        (b'{"query": 1, "ranking": "best"}', 422, "ranking must be one of label, position"),
        (b'{"query": 1, "where": "no_such = 1"}', 422, "no_such"),
        (b'{"query": 1, "where": 7}', 422, "where must be"),
        (b'{"query": 1, "where": {"ids": [999]}}', 422, "not in the index"),
        (b'{"query": 1, "state": "old"}', 409, "rows were added or removed"),
        (b'{"query": 1, "columns": ["no_such"]}', 422, "has no column 'no_such'"),
        (b'{"query": 1.5}', 422, "query must be a vector"),
        (b'{"query": 1, "novelty": [[1]]}', 422, "novelty must be a number"),
        (b'{"query": 1, "no_such": 1}', 422, "unknown field 'no_such': known are query, text"),
    ],
)
def test_invalid_searches_are_refused(service, body, status, said):
    headers = {"content-type": "application/json"}
    assert said in error_of(service.post("/v1/things/search", content=body, headers=headers), status)


def test_other_content_types_and_addresses_are_refused(service):
    plain = {"content-type": "text/plain"}
    assert "content type" in error_of(service.post("/v1/things/search", content=b"{}", headers=plain), 415)
    assert "40 bytes" in error_of(service.post("/v1/things/search", content=b"x" * 40, headers=OCTETS), 422)
    for name in ("other", "..", "%2e%2e", "things%2f..", "..%2fthings"):
        assert error_of(service.post(f"/v1/{name}/search", json={}), 404)
    assert error_of(service.get("/v1/things/search"), 405)
    assert error_of(service.get("/v1/things/items?ids=x"), 422)
    assert error_of(service.get("/v1/things/items?ids=1&ids=2"), 422)
    assert error_of(service.get("/v1/things", headers={"host": "evil.example"}), 403)


def test_each_limit_is_answered_in_its_own_words(start, folder):
    service = start({"things": folder}, max_body=2000, max_queries=3, max_answers=20, max_rows=3)
    assert "2,000 bytes" in error_of(service.post("/v1/things/search", json={"query": [0.0] * 9999}), 413)
    long = (b"x" * 1500 for _ in range(2))  # without a length
    assert error_of(service.post("/v1/things/search", content=long, headers=OCTETS), 413)
    queries = [[0.0] * 8] * 4
    assert "at most 3 rows" in error_of(service.post("/v1/things/search", json={"queries": queries}), 422)
    body = {"queries": queries[:3]}
    assert "more than 20 answers" in error_of(service.post("/v1/things/search", json=body), 422)
    assert "at most 3" in error_of(service.post("/v1/things/codes", json={"ids": [1, 2, 3, 4]}), 422)


def test_a_request_that_takes_too_long_is_given_up(start, folder, monkeypatch):
    import time

    service = start({"things": folder}, deadline=0.1)
    monkeypatch.setattr(CodeIndex, "search", lambda *_, **__: time.sleep(0.4))
    assert "took too long" in error_of(service.post("/v1/things/search", json={"query": [0.0] * 8}), 504)


def test_an_internal_error_is_logged_but_not_sent(service, monkeypatch, caplog):
    def fail(*_, **__):
        raise KeyError("secret")

    monkeypatch.setattr(CodeIndex, "search", fail)
    message = error_of(service.post("/v1/things/search", json={"query": [0.0] * 8}), 500)
    assert "secret" not in message
    assert message.split()[-1] in caplog.text
    assert "KeyError: 'secret'" in caplog.text


def test_each_token_allows_what_it_is_for(start, folder):
    service = start({"things": folder}, tokens=Tokens(READ, WRITE))

    def ask(token, path="/v1/things", **rest):
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        return service.request("POST" if rest else "GET", path, headers=headers, **rest)

    assert error_of(ask(None), 401)
    assert error_of(ask("wrong"), 401)
    assert error_of(ask(None, f"/v1/things?token={READ}"), 401)
    assert ask(READ).status_code == ask(WRITE).status_code == 200
    assert "may read, but not write" in error_of(ask(READ, "/v1/things/remove", json={"ids": [1]}), 403)
    assert ask(WRITE, "/v1/things/remove", json={"ids": [1]}).json() == {"rows": 299}
    assert error_of(ask(None, "/metrics"), 401)
    assert ask(None, "/healthz").json() == {"status": "ok"}
    assert ask(None, "/readyz").json() == {"status": "ready"}
    assert "<html" in ask(None, "/").text


def test_a_token_file_is_read_and_never_quoted(tmp_path):
    path = tmp_path / "tokens"
    path.write_text(f"# ours\nread: {READ}\n\nwrite: {WRITE}\n")
    assert read_tokens(path) == Tokens(READ, WRITE)
    assert READ not in repr(read_tokens(path))
    for text in (f"write: {WRITE}", f"raed: {READ}", READ, "read: short", f"read: {READ}\nwrite: {READ}"):
        path.write_text(text)
        with pytest.raises(InputError) as refused:
            read_tokens(path)
        assert READ not in str(refused.value)


def test_changes_are_saved_when_they_are_answered(service, folder, clusters):
    X, y = clusters
    service.post("/v1/things/add", json={"vectors": X[:2].tolist(), "labels": [int(y[0]), None]})
    saved = CodeIndex.load(folder)
    assert len(saved) == 302
    assert np.array_equal(saved.codes([300]), saved.codec.encode_items(X[:1], y[:1]))
    assert np.array_equal(saved.codes([301]), saved.codec.encode_items(X[1:2]))
    service.post("/v1/things/update", json={"ids": [5], "codes": [[1, 2]], "metadata": {"price": [-5]}})
    assert CodeIndex.load(folder).get([5]).to_pylist() == [{"id": 5, "colour": "green", "price": -5}]
    assert error_of(service.post("/v1/things/add", json={"vectors": [], "codes": []}), 422)
    assert "unknown label" in error_of(
        service.post("/v1/things/add", json={"vectors": X[:1].tolist(), "labels": [77]}), 422
    )
    assert len(CodeIndex.load(folder)) == 302


def test_unknown_labels_are_ignored_or_added_to_the_model(service, folder, clusters):
    X, _ = clusters
    body = {"vectors": X[:3].tolist(), "labels": [0, 77, None]}
    service.post("/v1/things/add", json=body | {"unknown_labels": "ignore"})
    saved = CodeIndex.load(folder)
    assert saved.codec.classes.tolist() == [0, 1, 2]
    assert np.array_equal(saved.codes([300, 301, 302]), saved.codec.encode_items(X[:3], [0, None, None]))
    service.post("/v1/things/upsert", json=body | {"ids": [301, 302, 5], "unknown_labels": "extend"})
    saved = CodeIndex.load(folder)
    assert saved.codec.classes.tolist() == [0, 1, 2, 77]
    assert np.array_equal(saved.codes([301, 302, 5]), saved.codec.encode_items(X[:3], [0, 77, None]))
    found = service.post("/v1/things/search", json={"query": X[1].tolist(), "k": 5}).json()
    assert found["ids"] == saved.search(X[1], 5)[1].tolist()
    said = error_of(service.post("/v1/things/add", json=body | {"unknown_labels": "add"}), 422)
    assert "'error' or 'ignore' or 'extend'" in said
    said = error_of(service.post("/v1/things/add", json=body | {"labels": [78] * 3}), 422)
    assert "1 unknown label: 78" in said
    codes = {"codes": [[1, 2]], "unknown_labels": "extend"}
    assert "given with vectors, not with codes" in error_of(service.post("/v1/things/add", json=codes), 422)


def test_labels_of_simultaneous_requests_are_all_added(service, folder, clusters):
    X, _ = clusters

    def add(label):
        body = {"vectors": X[label : label + 2].tolist(), "labels": [label] * 2, "unknown_labels": "extend"}
        assert service.post("/v1/things/add", json=body).status_code == 200

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(add, range(10, 18)))
    saved = CodeIndex.load(folder)
    assert sorted(saved.codec.classes.tolist()) == [0, 1, 2, *range(10, 18)]
    assert len(saved) == 316


def test_a_change_that_cannot_be_saved_is_not_seen(service, folder, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(CodeIndex, "_save", full)
        message = error_of(service.post("/v1/things/remove", json={"ids": [1]}), 507)
    assert message == "the change was not made: No space left on device"
    assert service.get("/v1/things").json()["rows"] == 300


def test_changes_by_another_process_are_kept(service, folder):
    other = CodeIndex.load(folder).remove([1, 2])
    other.save(folder)
    assert service.get("/v1/things").json()["rows"] == 300  # nobody watches
    assert error_of(service.post("/v1/things/remove", json={"ids": [1]}), 422)
    assert service.post("/v1/things/remove", json={"ids": [3]}).json() == {"rows": 297}
    assert len(CodeIndex.load(folder)) == 297


def test_a_save_between_load_and_save_is_not_lost(service, folder, monkeypatch):
    save, others = CodeIndex._save, [[1], [2]]

    def save_after_another(index, path, **options):
        if others:
            other = CodeIndex.load(folder).remove(others.pop())
            save(other, folder)
        return save(index, path, **options)

    monkeypatch.setattr(CodeIndex, "_save", save_after_another)
    assert service.post("/v1/things/remove", json={"ids": [3]}).json() == {"rows": 297}
    assert not {1, 2, 3} & set(CodeIndex.load(folder).ids.tolist())


def test_an_index_whose_folder_vanishes_is_searched_but_not_changed(service, folder, clusters):
    folder.rename(folder.with_name("gone"))
    X, _ = clusters
    assert service.post("/v1/things/search", json={"query": X[0].tolist()}).status_code == 200
    assert (
        error_of(service.post("/v1/things/remove", json={"ids": [1]}), 503)
        == "the folder of the index cannot be read"
    )
    assert not folder.exists()


def test_metrics_count_requests(service):
    service.get("/v1/things")
    service.get("/v1/nothing")
    lines = service.get("/metrics").text.splitlines()
    assert 'supquant_requests_total{index="things",operation="info",status="200"} 1.0' in lines
    assert 'supquant_requests_total{index="",operation="info",status="404"} 1.0' in lines
    assert 'supquant_rows{index="things"} 300.0' in lines


def test_two_indexes_are_served_by_name(start, folder):
    service = start({"things": folder, "more": folder})
    assert [each["name"] for each in service.get("/v1").json()["indexes"]] == ["things", "more"]
    with pytest.raises(InputError, match="letters, digits"):
        start({"../x": folder})
    assert json.loads(service.get("/v1/more").text)["rows"] == 300
