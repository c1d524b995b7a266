"""Texts and pictures are searched if an index has an encoder, and refused in one line if it has none."""

import base64

import numpy as np
import pytest
from serving import running

from supquant import CodeIndex, InputError
from supquant.client import Client
from supquant.demo.collection import encode_digits
from supquant.demo.pictures import png
from supquant.serve.encoding import load_encoders

WIDTH = 8


def by_letters(texts):
    """Vectors of the first letters of texts; a stand-in for a sentence encoder."""
    asked.append(list(texts))
    if any("bug" in each for each in texts):
        raise ZeroDivisionError("a secret of the encoder")
    if any("?" in each for each in texts):
        raise ValueError("no\nquestions")
    if any("wide" in each for each in texts):
        return np.zeros((len(texts), 3))
    return [[float(ord(each)) for each in text[:WIDTH].ljust(WIDTH)] for text in texts]


asked = []


@pytest.fixture
def encoding(start, folder):
    """A client of a service whose index takes texts."""
    asked.clear()
    return start({"things": folder}, encoders={"things": {"text": by_letters}})


def test_a_text_is_searched_by_its_vector(encoding, folder):
    found = encoding.post("/v1/things/search", json={"text": "a red shoe", "k": 4}).json()
    scores, ids = CodeIndex.load(folder).search(np.array(by_letters(["a red shoe"]), np.float32), 4)
    assert found["ids"] == ids[0].tolist()
    assert np.array_equal(np.array(found["scores"], np.float32), scores[0])
    assert encoding.get("/v1/things").json()["accepts"] == ["vector", "item", "text"]
    why = encoding.post("/v1/things/explain", json={"text": "a red shoe", "ids": found["ids"]}).json()
    assert len(why["answers"]) == 4


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"text": 7}, 422, "text must be text"),
        ({"text": ""}, 422, "the text is empty"),
        ({"text": "a", "query": 7}, 422, "give either a query, a text or a picture"),
        ({"text": "a", "queries": [[0] * 8]}, 422, "either a query or queries"),
        ({"picture": "AAAA"}, 422, "no encoder for a picture"),
        ({"picture": 7}, 422, "picture must be a file in base64"),
        ({"text": "why?"}, 422, "this text cannot be encoded: no questions"),
        ({"text": "a bug"}, 500, "the encoder failed: the log of the service has the reason"),
        ({"text": "wide"}, 500, "the encoder returned no finite vectors of 8 numbers"),
    ],
)
def test_a_text_or_picture_that_cannot_be_encoded_is_refused_in_one_line(encoding, body, status, said):
    answer = encoding.post("/v1/things/search", json=body)
    assert answer.status_code == status
    assert said in answer.json()["error"]
    assert "secret" not in answer.text


def test_without_an_encoder_texts_and_pictures_are_refused(service):
    answer = service.post("/v1/things/search", json={"text": "a shoe"})
    assert (answer.status_code, "no encoder for a text" in answer.text) == (422, True)
    answer = service.post("/v1/things/search", content=b"abc", headers={"content-type": "image/png"})
    assert (answer.status_code, "no encoder for a picture" in answer.text) == (422, True)


def test_simultaneous_texts_are_encoded_together(encoding):
    import asyncio

    encoder = encoding.service.indexes["things"].encoders["text"]

    async def together():
        return await asyncio.gather(
            *(encoder(each, WIDTH) for each in ("a", "b", "no?", "c")), return_exceptions=True
        )

    found = encoding.portal.call(together)
    assert asked[0] == ["a"]
    assert asked[1] == ["b", "no?", "c"]
    assert isinstance(found[2], Exception)
    assert [each[0, 0] for each in (found[0], found[1], found[3])] == [97, 98, 99]


def test_a_client_sends_texts_and_pictures(folder):
    def by_length(pictures):
        return np.full((len(pictures), WIDTH), [[len(each)] for each in pictures], dtype=float)

    encoders = {"things": {"text": by_letters, "picture": by_length}}
    with running({"things": folder}, encoders=encoders) as (url, _):
        client = Client(url)
        for query, vector in (("shoes", by_letters(["shoes"])), (b"12345", [[5.0] * WIDTH])):
            scores, ids = client.search_encoded(query, 5, where="price < 99")
            expected = client.search(np.array(vector, np.float32), 5, where="price < 99")
            assert np.array_equal(scores, expected[0][0])
            assert np.array_equal(ids, expected[1][0])


def test_a_picture_of_a_digit_becomes_the_vector_of_the_digit(digits, start, folder):
    X, _ = digits
    exact = encode_digits([png(X[3].reshape(8, 8)), png(np.kron(1 - X[3].reshape(8, 8), np.ones((5, 5))))])
    assert exact == pytest.approx(np.stack([X[3], X[3]]), abs=0.005)
    for broken in (b"", b"GIF89a", png(X[3].reshape(8, 8))[:60]):
        with pytest.raises(ValueError, match="it is not a picture"):
            encode_digits([broken])


def test_a_picture_may_be_the_whole_body(start, folder):
    client = start(
        {"things": folder},
        encoders={"things": {"picture": lambda all_: [[len(each)] * WIDTH for each in all_]}},
    )
    as_body = client.post("/v1/things/search?k=3", content=b"1234567", headers={"content-type": "image/png"})
    in_json = client.post(
        "/v1/things/search", json={"picture": base64.b64encode(b"1234567").decode(), "k": 3}
    )
    assert as_body.status_code == 200
    assert as_body.json() == in_json.json()


def test_encoders_are_found_by_name(tmp_path, monkeypatch):
    (tmp_path / "own_encoder.py").write_text("def encode(texts):\n    return texts\n\nnothing = 1\n")
    monkeypatch.chdir(tmp_path)
    found = load_encoders(["b=text:own_encoder:encode"], ["a", "b"])
    assert found["a"] == {}
    assert found["b"]["text"](["x"]) == ["x"]
    assert load_encoders(["picture:own_encoder:encode"], ["a", "b"])["a"].keys() == {"picture"}
    for text, said in (
        ("own_encoder:encode", "KIND:MODULE:FUNCTION"),
        ("c=text:own_encoder:encode", "INDEX one of a, b"),
        ("text:own_encoder:missing", "there is no encoder own_encoder:missing"),
        ("text:no_such_module:encode", "there is no encoder no_such_module:encode"),
        ("text:own_encoder:nothing", "is not a function"),
    ):
        with pytest.raises(InputError, match=said):
            load_encoders([text], ["a", "b"])
