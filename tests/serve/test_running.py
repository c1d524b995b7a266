"""Running services: where they listen, whom they cut off, what other processes save, and how they end."""

import json
import logging
import re
import socket
import threading
import time
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from http.client import parse_headers

import numpy as np
import pytest
from preloaded import PreloadedModule
from serving import running
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from supquant import CodeIndex, InputError
from supquant.client import Client, ServiceError
from supquant.serve import connections
from supquant.serve.running import name_folders, open_socket
from supquant.serve.tokens import Tokens
from supquant_lab.bench.serving import fuzzing
from supquant_lab.bench.serving.comparing import SECRET, may_differ
from supquant_lab.bench.serving.exchange import Answer
from supquant_lab.bench.serving.fuzzing import fuzz, write_folders
from supquant_lab.bench.serving.process import READ, WRITE, ServiceProcess, growth_of
from supquant_lab.bench.serving.speed import ask


def connect(url):
    return socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=20)


def test_without_tokens_no_other_machine_can_connect():
    for host in ("0.0.0.0", "::"):
        with pytest.raises(InputError, match="give --token-file to listen on"):
            open_socket(host, 0, None)
    with open_socket("0.0.0.0", 0, Tokens(READ)) as listening:
        port = listening.getsockname()[1]
        with pytest.raises(InputError, match=f"cannot listen on 127.0.0.1, port {port}"):
            open_socket("127.0.0.1", port, None)
    with pytest.raises(InputError, match=r"cannot listen on no\.such\.host\.invalid: "):
        open_socket("no.such.host.invalid", 0, None)


def test_two_indexes_with_the_same_name_are_refused():
    with pytest.raises(InputError, match="two indexes are named 'a'"):
        name_folders(["x/a.index", "a=b"])


def test_clients_that_send_or_read_too_slowly_are_cut_off(folder):
    with running({"things": folder}, deadline=0.3, max_answers=10**7, max_k=10**6) as (url, _):
        with connect(url) as slow:
            slow.sendall(b"POST /v1/things/search HTTP/1.1\r\nContent-Le")
            assert slow.recv(100) == b""
        with connect(url) as slow:
            slow.sendall(b"POST /v1/things/search HTTP/1.1\r\nContent-Length: 99\r\n\r\n{")
            assert slow.recv(100).startswith(b"HTTP/1.1 504")
        with connect(url) as idle, connect(url) as deaf:
            assert idle.recv(100) == b""
            for _ in range(2000):  # the answers fill all buffers, and nobody reads them
                try:
                    deaf.sendall(b"GET /openapi.json HTTP/1.1\r\n\r\n" * 20)
                except OSError:
                    break
            else:
                pytest.fail("a client that never reads was not cut off")
        assert Client(url).info()["rows"] == 300


def test_a_save_by_another_process_is_loaded_without_a_lost_request(folder, clusters):
    X, _ = clusters
    with running({"things": folder}, watched=True) as (url, _):
        client, failures, over = Client(url), [], threading.Event()

        def ask():
            own = Client(url)
            while not over.is_set():
                try:
                    own.search(X[:2], 5)
                except Exception as error:  # noqa: BLE001
                    failures.append(error)

        threads = [threading.Thread(target=ask) for _ in range(2)]
        for thread in threads:
            thread.start()
        for n_removed in range(3):
            CodeIndex.load(folder).remove([n_removed]).save(folder)
            end = time.monotonic() + 30
            while len(client) != 299 - n_removed:
                assert time.monotonic() < end, "the save was not loaded"
                time.sleep(0.02)
        over.set()
        for thread in threads:
            thread.join()
        assert failures == []


def test_a_client_says_what_is_wrong(folder):
    with running({"things": folder, "others": folder}, tokens=Tokens(READ, WRITE)) as (url, _):
        with pytest.raises(ServiceError, match="a token is needed") as refused:
            Client(url)
        assert refused.value.status == 401
        with pytest.raises(InputError, match="choose one of things, others"):
            Client(url, READ)
        with pytest.raises(InputError, match="has no index 'none'"):
            Client(url, READ, index="none")
        with pytest.raises(ServiceError, match="may read, but not write"):
            Client(url, READ, index="things").remove([1])
        client = Client(url, WRITE, index="things")
        assert len(client.remove([1])) == 299
        assert 1 not in client
        assert 2 in client
    with pytest.raises(ServiceError, match="cannot be reached"):
        client.info()
    with pytest.raises(InputError, match="expected an address"):
        Client("localhost:8000")


def test_requests_under_way_are_finished_after_sigterm(folder, clusters):
    X, _ = clusters
    with ServiceProcess(f"things={folder}", "--jobs", 1) as service:
        client = Client(service.url)
        answers, n_added = [], 40

        def add():
            for _ in range(n_added):
                try:
                    answers.append(Client(service.url).add(X[:1]))
                except ServiceError:
                    return

        thread = threading.Thread(target=add)
        thread.start()
        while len(answers) < 3:
            time.sleep(0.005)
        code, errors = service.end()
        thread.join()
        client.close()
    assert (code, errors) == (0, "")
    assert len(CodeIndex.load(folder)) >= 300 + len(answers)


@pytest.mark.parametrize("body", ["octets", "json"])
def test_the_clients_of_the_benchmark_are_answered(folder, body, monkeypatch):
    monkeypatch.setattr("supquant_lab.bench.process._start", PreloadedModule)
    with running({"things": folder}) as (url, _):
        found = ask(url, n_clients=4, seconds=0.1, core=0, body=body)
    assert found["searches"] >= 4
    assert found["per_second"] > 0


@contextmanager
def pair_of_services(tmp_path, monkeypatch):
    """Serve the folders of the fuzzer twice: as we do, and by uvicorn's own protocol."""
    served = {"tokens": Tokens(READ, WRITE), "max_body": 200_000, "deadline": 10.0}
    with ExitStack() as stack:
        urls = []
        for name in ("ours", "theirs"):
            (tmp_path / name).mkdir()
            with monkeypatch.context() as patch:
                if name == "theirs":
                    patch.setattr("supquant.serve.running.service_protocol", lambda *_: HttpToolsProtocol)
                    patch.setattr(logging.getLogger("uvicorn.error"), "disabled", True)
                urls.append(stack.enter_context(running(write_folders(tmp_path / name), **served))[0])
        yield urls


def test_odd_requests_are_answered_as_by_uvicorns_own_protocol(tmp_path, monkeypatch):
    with pair_of_services(tmp_path, monkeypatch) as urls:
        found = fuzz(*urls, 1000, seed=1)
        assert found.failures == []
        assert {200, 400, 401, 403, 404, 405, 415, 422} <= set(found.statuses)
        assert found.compared > 700
        assert len(Client(urls[0], READ, index="hidden")) == 50


@pytest.mark.parametrize("wrong", ["header", "body", "another index", "silence"])
def test_the_fuzzer_notices_wrong_answers(tmp_path, monkeypatch, wrong):
    answered = connections._response

    def spoiled(answer, keep_alive):
        if wrong == "header":
            return answered(replace(answer, headers={**answer.headers, "x": "1"}), keep_alive)
        if wrong == "body":
            return answered(replace(answer, body=answer.body + b" "), keep_alive)
        if wrong == "another index":
            return answered(replace(answer, body=SECRET.encode()), keep_alive)
        return b""

    monkeypatch.setattr(connections, "_response", spoiled)
    monkeypatch.setattr("supquant_lab.bench.serving.exchange.PATIENCE", 0.5)
    monkeypatch.setattr(fuzzing, "MAX_FAILURES", 1)
    with pair_of_services(tmp_path, monkeypatch) as urls:
        assert fuzz(*urls, 300, seed=1).failures


def test_only_an_audit_that_is_not_ready_may_have_another_status():
    refused, unready, ready = (
        Answer(status, (), body)
        for status, body in ((422, b"{}"), (200, b'{"ready":false,"done":0}'), (200, b'{"ready":true}'))
    )
    assert may_differ(b"/v1/brine/audit", refused, unready)
    assert may_differ(b"/v1/brine/audit", unready, ready)
    assert not may_differ(b"/v1/brine/audit", refused, ready)
    assert not may_differ(b"/v1/brine/search", refused, unready)


def test_memory_that_grows_is_a_failure():
    assert growth_of([50, 100, 101, 100, 102, 101, 100, 101, 102])[1] == []
    assert growth_of([50, 100, 101, 110, 112, 111, 120, 121, 122])[1] == [
        "the memory grew from 100 to 121 MB"
    ]


def test_labels_of_every_kind_reach_the_index(serve_index, clusters):
    from supquant import SupervisedQuantizer

    X, y = clusters
    several = np.eye(3)[y].astype(int)
    several[::4, 0] = 1
    model = SupervisedQuantizer(2, n_codewords=16, max_iter=2, random_state=0).fit(X, several)
    client = serve_index(CodeIndex(model))
    given = several[:4].astype(float)
    given[1] = np.nan
    client.add(X[:4], given)
    assert np.array_equal(client.codes(range(4)), model.codec_.encode_items(X[:4], given))


def exchange(url, *requests):
    """Send requests over one connection, all at once, and return the answers: status, content type and body of each."""
    with connect(url) as own, own.makefile("rb") as answers:
        own.sendall(b"".join(requests))
        found = []
        while len(found) < len(requests):
            status = int(answers.readline().split()[1])
            headers = parse_headers(answers)
            if status != 100:
                body = answers.read(int(headers["content-length"]))
                found.append((status, headers.get_content_type(), body))
        return found


def post(path, body, *headers):
    host = [] if any(each.startswith("Host:") for each in headers) else ["Host: localhost"]
    lines = [f"POST {path} HTTP/1.1", *host, f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def test_the_shortcut_of_a_search_gives_the_answers_of_the_ordinary_path(folder, clusters):
    X, _ = clusters
    octets, plain = "Content-Type: application/octet-stream", "Content-Type: application/json"
    nan = np.full((1, 8), np.nan, np.float32).tobytes()
    cases = [
        (200, "/v1/things/search?k=3", X[:2].tobytes(), octets),
        (200, "/v1/things/search?k=3&columns=price&threshold=0.1", X[:1].tobytes(), octets),
        (200, "/v1/things/search", b'{"query": 7, "where": "price < 9"}', plain),
        (422, "/v1/things/search", nan, octets),
        (422, "/v1/things/search?k=0", X[:1].tobytes(), octets),
        (422, "/v1/things/search", X[0, :3].tobytes(), octets),
        (400, "/v1/things/search", b"{", plain),
        (415, "/v1/things/search", b"{}", "Content-Type: text/plain"),
        (403, "/v1/things/search", b"{}", "Host: example.org"),
        (413, "/v1/things/search", b"0" * 70_001, octets),
    ]
    with running({"things": folder}, max_body=70_000) as (url, service):
        for status, path, body, header in cases:
            short = exchange(url, post(path, body, header))
            # A request that waits for 100 Continue, and one behind another, go through uvicorn.
            long = exchange(url, post(path, body, header, "Expect: 100-continue"))
            behind = exchange(url, post("/v1/things/search", b"{}", plain), post(path, body, header))
            assert short[0][0] == status
            assert short == long == behind[1:]
        assert (
            exchange(url, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", post(*cases[0][1:]))[1][0]
            == 200
        )
        text = service.metrics.text().decode()
        assert 'supquant_requests_total{index="things",operation="search",status="413"} 3.0' in text
        assert 'supquant_request_seconds_bucket{le="+Inf",operation="search"} 41.0' in text


def test_a_search_that_comes_in_pieces_and_asks_to_close_is_answered_and_closed(folder, clusters):
    X, _ = clusters
    request = post(
        "/v1/things/search", X[:1].tobytes(), "Content-Type: application/octet-stream", "Connection: close"
    )
    with running({"things": folder}) as (url, _), connect(url) as own:
        for part in (request[:20], request[20:-10], request[-10:]):
            own.sendall(part)
            time.sleep(0.02)
        with own.makefile("rb") as answers:
            whole = answers.read()  # until the connection ends
    head, _, body = whole.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"connection: close" in head
    assert len(json.loads(body)["ids"][0]) == 10


def whole_answers(url, *pieces):
    """Send pieces over one connection, and return all that is answered until it ends."""
    with connect(url) as own:
        for piece in pieces:
            own.sendall(piece)
            time.sleep(0.02)
        return b"".join(iter(lambda: own.recv(65_536), b""))


HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
OFFER = b"Connection: Upgrade\r\nUpgrade: h2c\r\n"


def test_requests_that_offer_another_protocol_may_follow_each_other_at_once(folder):
    offers = HEALTH[:-2] + OFFER + b"\r\n"
    body = b'{"query": 7, "k": 1}'
    search = post(
        "/v1/things/search", body, "Content-Type: application/json", "Upgrade: h2c", "Connection: upgrade"
    )
    with running({"things": folder}) as (url, _):
        assert [each[0] for each in exchange(url, offers, search, offers, search, HEALTH)] == [200] * 5


@pytest.mark.parametrize("together", [True, False])
def test_what_comes_before_bytes_that_are_no_request_is_answered(folder, together, capsys):
    search = post("/v1/things/search", b'{"query": 7, "k": 1}', "Content-Type: application/json")
    damaged = search.replace(b"Content-Length: 20", b"Transfer-Encoding: chunked\r\nExpect: 100-continue")
    refusal = b'{"error":"the request is not valid HTTP/1.1"}'
    with running({"things": folder}) as (url, _):
        for nonsense in (b"nonsense\r\n\r\n", damaged):
            pieces = [search, HEALTH, search, nonsense]
            found = whole_answers(url, *([b"".join(pieces)] if together else pieces))
            statuses = [each for each in re.findall(rb"HTTP/1.1 (\d+)", found) if each != b"100"]
            assert statuses == [b"200", b"200", b"200", b"400"]
            assert found.endswith(refusal)
        assert whole_answers(url, damaged).endswith(refusal)
        ended = whole_answers(url, HEALTH[:-2] + b"Connection: close\r\n\r\nnonsense\r\n\r\n")
        assert ended.count(b"HTTP/1.1") == 1
    assert capsys.readouterr().err == ""


def test_a_long_body_behind_the_end_of_a_head_is_not_counted_as_head(folder):
    body = b'{"query": 7, "k": 1}'
    body += b" " * (120_000 - len(body))
    whole = post("/v1/things/search", body, "Content-Type: application/json")
    for size in (60, 100):
        with running({"things": folder}) as (url, _), connect(url) as own:
            own.sendall(whole[:size])
            time.sleep(0.05)
            own.sendall(whole[size:])
            with own.makefile("rb") as answers:
                assert answers.readline() == b"HTTP/1.1 200 OK\r\n"
