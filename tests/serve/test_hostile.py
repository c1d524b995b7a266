"""Clients that would hurt a service: each is refused, and others are answered as before."""

import base64
import json
import select
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import duckdb
import pyarrow as pa
import pytest
from serving import running

from supquant import CodeIndex, InputError
from supquant.client import Client
from supquant.serve import looking
from supquant.serve.calls import Endpoint
from supquant.serve.conditions import _FUNCTIONS, check_condition
from supquant.serve.served import Change
from supquant.serve.tokens import Tokens, read_tokens
from supquant_lab.bench.serving.process import ServiceProcess


def error_of(answer, status):
    assert answer.status_code == status, answer.text
    return answer.json()["error"]


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("pg_sleep(1) is null and 1=1", "calls pg_sleep"),
        ("case when price < 0 then false else repeat(colour, 9) = 'x' end", "calls repeat"),
        ("price in (select range from range(10000000000))", "got subquery"),
        ("current_setting('threads') = '1'", "calls current_setting"),
        ("sum(price) over () > 1", "got window"),
        ("price = 1 limit 1", "expected one condition"),
        ("price::int[99999][99999] is null", "casts to array"),
        ("colour like colour", "takes a text to look for"),
        ("regexp_matches(colour, '(((a?){10}){10}){9}b')", "must not have {}"),
        (f"contains('{'a' * 300}' || colour, 'b')", "at most 256 characters"),
        ("price = 1" + " or price = 1" * 2000, "at most 16,384 characters"),
        ("price + " * 1500 + "1 = 1", "cannot be"),
        (" ", "the condition is empty"),
        ("id = 7", "there is no column 'id', only colour, price"),
        ("colour::int = 1", "to INT32 when casting from source column colour"),
    ],
)
def test_a_condition_that_could_take_long_is_refused(service, where, said):
    for path in ("search", "select"):
        body = {"where": where} | ({"query": 1} if path == "search" else {})
        assert said in error_of(service.post(f"/v1/things/{path}", json=body), 422)


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ("price between 3 and 4 and colour in ('red', 'blue')", [3, 4]),
        ("abs(-price) < 3 and lower(colour) like 'r%'", [0]),
        ("price::varchar = '7' or coalesce(colour, '') ~ 'g.*n' and price < 3", [2, 7]),
        ("case when price > 1 then false else not colour = 'red' end", [1]),
        ("date '2020-01-01' + interval (price) days < date '2020-01-03'", [0, 1]),
        ("price * 2 + 1 = 5 -- two", [2]),
    ],
)
def test_a_condition_on_the_values_of_a_row_is_answered(service, where, ids):
    assert service.post("/v1/things/select", json={"where": where}).json() == {"ids": ids}


def test_every_function_that_conditions_may_call_is_one_of_this_duckdb_and_has_no_effect():
    found = {}
    columns = (
        "function_name, function_type, coalesce(has_side_effects, false), coalesce(stability, 'CONSISTENT')"
    )
    for name, *facts in duckdb.sql(f"select {columns} from duckdb_functions()").fetchall():
        found.setdefault(name, set()).add(tuple(facts))
    assert set(found) >= _FUNCTIONS
    for name in _FUNCTIONS:
        kind = "macro" if found[name] == {("macro", False, "CONSISTENT")} and name == "nullif" else "scalar"
        assert found[name] == {(kind, False, "CONSISTENT")}, name
    others = sorted(name for name in found if name.isidentifier() and name not in _FUNCTIONS)
    assert len(others) > 500
    for name in others:
        with pytest.raises(InputError):
            check_condition(f"{name}(price) is null")


def test_a_condition_is_interrupted_at_the_deadline(start, folder, monkeypatch):
    monkeypatch.setattr("supquant.serve.served.check_condition", lambda _: None)
    service = start({"things": folder}, deadline=0.3)
    for _ in range(3):  # more than there are threads for conditions
        body = {"where": "(select count(*) from range(1000000000000)) > price"}
        assert "took too long" in error_of(service.post("/v1/things/select", json=body), 504)
    end = time.monotonic() + 20
    while service.post("/v1/things/select", json={"where": "price < 1"}).json() != {"ids": [0]}:
        assert time.monotonic() < end, "the threads are still at work"
    assert service.get("/v1/things/items?ids=1").status_code == 200


def test_a_service_ends_although_a_thread_is_stuck(folder, tmp_path, monkeypatch):
    (tmp_path / "stuck.py").write_text("import time\n\ndef encode(texts):\n    time.sleep(40)\n")
    monkeypatch.chdir(tmp_path)
    arguments = (f"things={folder}", "--jobs", 1, "--deadline", 0.5, "--encoder", "text:stuck:encode")
    with ServiceProcess(*arguments) as service:
        client = Client(service.url)
        with pytest.raises(Exception, match="took too long"):
            client.search_encoded("a text")
        began = time.monotonic()
        code, errors = service.end()
        assert time.monotonic() - began < 20
    assert (code, errors) == (1, "Some work did not end within the deadline, and was given up.\n")


def test_maps_that_fail_are_not_kept(service):
    version = service.service.indexes["things"].version
    for number in range(30):
        said = error_of(service.get(f"/v1/things/map?label={'a' * 1000}{number}"), 422)
        assert "label must be a column" in said
    assert not looking._begun[version]
    assert service.get("/v1/things/map").status_code == 200
    assert len(looking._begun[version]) == 1


def test_maps_and_audits_that_take_long_leave_threads_for_others(service, monkeypatch):
    over = threading.Event()
    monkeypatch.setattr(looking, "PATIENCE", 0.05)
    monkeypatch.setattr(looking, "_map_of", lambda *_: over.wait(30))
    try:
        for label in ("colour", "price", "a", "b", "c"):
            assert not service.get(f"/v1/things/map?label={label}").json()["ready"]
        assert service.get("/v1/things/items?ids=1").status_code == 200
        assert service.post("/v1/things/select", json={"where": "price < 1"}).json() == {"ids": [0]}
    finally:
        over.set()


@pytest.mark.parametrize("novelty", [[[1]], [None], ["1"], [True], [{}], [0.5, [0.5]], {}, 1.5])
def test_a_senseless_novelty_is_refused_and_others_are_answered(service, novelty):
    body = {"query": [0.0] * 8, "novelty": novelty}
    assert "novelty" in error_of(service.post("/v1/things/search", json=body), 422)
    assert service.post("/v1/things/search", json={"query": [0.0] * 8}).status_code == 200


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("search", {"query": 1, "columns": ["colour"] * 10_000}, "columns must not name a column twice"),
        ("select", {"where": {"ids": [True] * 300}}, "ids of where must be whole numbers or strings"),
        ("select", {"where": {"ids": [1], "skip_missing": 1}}, "skip_missing must be true or false"),
        ("remove", {"ids": [True]}, "ids must be whole numbers or strings"),
        ("add", {"codes": [[1, 2]], "metadata": {"colour": "x"}}, "'colour' of metadata must be a list"),
        ("search?k=2", {"query": 1}, "fields belong into the JSON body"),
    ],
)
def test_a_body_that_could_be_taken_for_another_is_refused(service, path, body, said):
    assert said in error_of(service.post(f"/v1/things/{path}", json=body), 422)
    assert service.get("/v1/things").json()["rows"] == 300


@pytest.mark.parametrize("k", ["1_0", "%D9%A3", "+5", " 5", ""])
def test_a_number_in_an_address_has_plain_digits(service, k):
    headers = {"content-type": "application/octet-stream"}
    answer = service.post(f"/v1/things/search?k={k}", content=b"\0" * 32, headers=headers)
    assert "k must be a number" in error_of(answer, 422)


def test_an_error_does_not_repeat_a_long_id(start, served_model, clusters, tmp_path):
    X, _ = clusters
    ids = [f"q{row}" for row in range(len(X))]
    CodeIndex(served_model).add(X, ids=ids).save(tmp_path / "things")
    answer = start({"things": tmp_path / "things"}).post("/v1/things/remove", json={"ids": ["q" * 100_000]})
    assert len(error_of(answer, 422)) < 200


READ = "read-0123456789abcdef"
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


def connect(url):
    return socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=20)


def said(own):
    """Return the status and the JSON of one answer."""
    with own.makefile("rb") as answers:
        status, length = int(answers.readline().split()[1]), 0
        while (line := answers.readline().strip()) != b"":
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        return status, json.loads(answers.read(length))


def endless(begin, piece, n_bytes=8 << 20):
    """Return a request that never ends, up to a number of bytes that no service should take."""
    return begin + piece * (n_bytes // len(piece))


POST = b"POST /v1/things/search HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = POST + b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"


@pytest.mark.parametrize(
    ("begin", "piece", "status"),
    [
        (POST, b"A: 1\r\n", 431),
        (POST + b"A: ", b"1", 431),
        (POST, b"A", 431),
        (b"GET /", b"a", 414),
        (CHUNKED, b"A: 1\r\n", None),
        (CHUNKED + b"A: ", b"1", None),
        (CHUNKED[:-1] + b";", b"a", None),
    ],
)
def test_an_endless_head_is_cut_off(folder, begin, piece, status):
    request = endless(begin, piece)
    with running({"things": folder}, tokens=Tokens(READ)) as (url, _), connect(url) as own:
        own.setblocking(False)
        sent, answer, end = 0, b"", time.monotonic() + 30
        while time.monotonic() < end:  # until the service ends the connection
            try:
                sent += own.send(request[sent : sent + 65_536])
                assert sent < len(request), "all of it was taken"
            except BlockingIOError:
                pass
            except OSError:
                break
            try:
                more = own.recv(65_536)
                answer += more
                if not more:
                    break
            except BlockingIOError:
                pass
            except OSError:
                break
        else:
            pytest.fail("the connection is still open")
        assert sent < 6 << 20  # most of it is in buffers of the system
        if status is not None:
            assert answer.startswith(b"HTTP/1.1 %d " % status)
            assert b"at most 65,536 bytes" in answer
        with connect(url) as other:
            other.sendall(HEALTH)
            assert said(other)[0] == 200


def test_a_head_of_64_kib_is_the_longest(folder):
    with running({"things": folder}) as (url, _):
        for size, status in ((65_000, 200), (66_000, 431)):
            with connect(url) as own:
                own.sendall(HEALTH[:-2] + b"A: " + b"1" * (size - len(HEALTH)) + b"\r\n\r\n")
                assert said(own)[0] == status


def test_a_body_in_many_chunks_is_read(folder):
    body = json.dumps({"query": 7, "k": 1, "where": {"ids": list(range(300))}}).encode()
    body += b" " * 30_000
    head = POST + b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    with running({"things": folder}) as (url, _), connect(url) as own:
        own.sendall(head + b"".join(b"1\r\n%c\r\n" % each for each in body) + b"0\r\n\r\n" + HEALTH)
        with own.makefile("rb") as answers:
            assert answers.readline() == b"HTTP/1.1 200 OK\r\n"


def test_silent_connections_make_room_for_others(folder, monkeypatch):
    monkeypatch.setattr("supquant.serve.running._MAX_CONNECTIONS", 8)
    respond, busy = Endpoint.respond, [0.3]

    async def respond_late(*arguments):
        if busy:
            time.sleep(busy.pop())  # meanwhile the loop accepts nobody
        return await respond(*arguments)

    monkeypatch.setattr(Endpoint, "respond", respond_late)
    with running({"things": folder}) as (url, _), connect(url) as old, ExitStack() as stack:
        old.sendall(HEALTH)
        time.sleep(0.1)
        silent = [stack.enter_context(connect(url)) for _ in range(20)]  # all are accepted at the same time
        assert said(old)[0] == 200
        for _ in range(2):
            with connect(url) as new:
                new.sendall(HEALTH)
                assert said(new) == (200, {"status": "ok"})
        old.sendall(HEALTH)
        assert said(old)[0] == 200
        for each in silent[:13]:  # those that have been silent the longest
            assert each.recv(1) == b""
        assert select.select(silent[15:], [], [], 0)[0] == []  # a closed socket could be read


def test_a_request_that_offers_http_2_keeps_its_body(folder):
    body = b'{"query": 7, "k": 1}'
    head = POST + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"
    head += b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    with running({"things": folder}) as (url, _):
        for pieces in ([head + body], [head, body], [head[:50], head[50:-2], head[-2:], body[:5], body[5:]]):
            with connect(url) as own:
                for piece in pieces:
                    own.sendall(piece)
                    time.sleep(0.02)
                status, found = said(own)
                assert (status, len(found["ids"])) == (200, 1)
                own.sendall(HEALTH)  # the connection goes on
                assert said(own)[0] == 200


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /v1 HTTP/1.1\r\nHost: evil.example\r\nHost: localhost\r\n\r\n", 400),
        (b"CONNECT localhost:1 HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
        (b"nonsense\r\n\r\n", 400),
        (b"GET /v1 HTTP/1.1\r\nAuthorization: Bearer a\r\nauthorization: Bearer b\r\n\r\n", 400),
        (b"POST /v1/things/compact HTTP/1.1\r\nIdempotency-Key: a\r\nIdempotency-Key: b\r\n\r\n", 400),
    ],
)
def test_a_request_that_is_unclear_is_refused_in_one_line(folder, request_, status):
    with running({"things": folder}) as (url, _), connect(url) as own:
        own.sendall(request_)
        found, body = said(own)
        assert (found, list(body)) == (status, ["error"])
        assert own.recv(1) == b""


# The service goes on with a warning, which this suite would turn into an error.
warns_of_nulls = pytest.mark.filterwarnings("ignore:the index has columns that the metadata")

BAD_METADATA = [
    {"price": [2**64 - 1]},
    {"deep": [json.loads("[" * 200 + "1" + "]" * 200)]},
    {"deep": [json.loads('{"a":' * 200 + "1" + "}" * 200)]},
    {"price": ["a"]},
]


def encoded(table):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return base64.b64encode(sink.getvalue().to_pybytes()).decode()


@warns_of_nulls
def test_a_change_that_cannot_be_kept_does_not_affect_others(service, folder):
    def add(metadata):
        return service.post("/v1/things/add", json={"codes": [[1, 2]], "metadata": metadata})

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(add, [{"price": [5]}, *BAD_METADATA] * 4))
    assert [each.status_code for each in answers] == [200, 422, 422, 422, 422] * 4
    assert len(CodeIndex.load(folder)) == 304


@warns_of_nulls
def test_an_unexpected_error_of_one_change_does_not_affect_others(service, folder):
    def fail(index):
        index.remove([1])
        raise KeyError("unexpected")

    def spoil(index):
        index.columns_of_a_bad_kind = True

    save = CodeIndex._save

    def save_unless_spoiled(index, *rest, **options):
        if hasattr(index, "columns_of_a_bad_kind"):
            raise TypeError("cannot be saved")
        return save(index, *rest, **options)

    made = [fail, lambda index: index.remove([2]), spoil, lambda index: index.remove([3])]
    changes = [Change(each, len) for each in made]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CodeIndex, "_save", save_unless_spoiled)
        found = service.service.indexes["things"]._commit(changes)
    assert [type(each) for each in found] == [KeyError, int, TypeError, int]
    assert sorted({1, 2, 3} - set(CodeIndex.load(folder).ids.tolist())) == [2, 3]


@warns_of_nulls
@pytest.mark.parametrize(
    ("column", "status"),
    [
        (pa.RunEndEncodedArray.from_arrays(pa.array([1], pa.int32()), pa.array([5])), 200),
        (pa.array([["a"]], pa.list_(pa.string_view())), 200),
        (pa.UnionArray.from_dense(pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.array([1])]), 422),
    ],
    ids=lambda value: str(getattr(value, "type", value)),
)
def test_a_column_that_would_spoil_searches_is_cast_or_refused(service, column, status):
    body = {"codes": [[1, 2]], "metadata": encoded(pa.table({"other": column}))}
    assert service.post("/v1/things/add", json=body).status_code == status
    found = service.post("/v1/things/search", json={"query": 3, "columns": ["price"], "where": "price < 9"})
    assert found.status_code == 200


@pytest.mark.parametrize("n_failures", [1, 9])
def test_a_change_whose_sync_fails_is_not_said_to_be_undone(service, folder, monkeypatch, n_failures):
    before, failures = (folder / "manifest.json").stat().st_ino, []

    def sync(path):
        if (folder / "manifest.json").stat().st_ino != before and len(failures) < n_failures:
            failures.append(path)
            raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        for name in ("storage.replacing", "index.files"):
            patch.setattr(f"supquant.{name}.sync_folder", sync)
        answer = service.post("/v1/things/remove", json={"ids": [1]})
    assert failures
    if n_failures == 1:
        assert answer.json() == {"rows": 299}
    else:
        assert "the change was made and is seen, but a crash may undo it" in error_of(answer, 507)
    assert service.get("/v1/things").json()["rows"] == len(CodeIndex.load(folder)) == 299
    assert service.post("/v1/things/remove", json={"ids": [2]}).json() == {"rows": 298}


def test_answers_are_counted_before_they_are_found(start, folder, monkeypatch):
    service = start({"things": folder}, max_answers=1000)
    scanned, scan = [], CodeIndex.range_search

    def counted(index, Q, *rest, **options):
        found = scan(index, Q, *rest, **options)
        scanned.append(len(found[2]))
        return found

    monkeypatch.setattr(CodeIndex, "range_search", counted)
    body = {"queries": [[0.0] * 8] * 1000, "threshold": -(10.0**9)}
    said_ = error_of(service.post("/v1/things/range_search", json=body), 422)
    assert "more than 1,000 rows are within the threshold" in said_
    assert scanned == [900, 900]
    tables = service.post("/v1/things/search_tables", json={"tables": [[[0.0] * 16] * 2] * 101, "k": 10})
    assert "101 queries with k=10 have more than 1,000 answers" in error_of(tables, 422)


@pytest.mark.parametrize("max_answers", [250, 300, 700, 10_000])
def test_a_range_search_in_blocks_answers_as_the_index_does(start, folder, clusters, max_answers):
    X, _ = clusters
    service, index = start({"things": folder}, max_answers=max_answers), CodeIndex.load(folder)
    everything = index.search(X[:7], 300)[0]
    threshold = float(everything[:, 30].min())
    for novelty in (None, 0.25, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]):
        body = {"queries": X[:7].tolist(), "threshold": threshold, "novelty": novelty}
        found = service.post("/v1/things/range_search", json=body)
        bounds, scores, ids = index.range_search(X[:7], threshold, novelty=novelty)
        if len(ids) > max_answers:
            assert "rows are within the threshold" in error_of(found, 422)
        else:
            assert found.json()["limits"] == bounds.tolist()
            assert found.json()["ids"] == ids.tolist()
            assert found.json()["scores"] == pytest.approx(scores.tolist())
    uneven = {"queries": X[:7].tolist(), "threshold": threshold, "novelty": [0.1] * 8}
    assert "8 numbers for 7 queries" in error_of(service.post("/v1/things/range_search", json=uneven), 422)
    empty = service.post("/v1/things/range_search", json={"queries": [], "threshold": 0.5})
    assert empty.json() == {"limits": [0], "ids": [], "scores": []}


def test_one_query_with_too_many_answers_is_not_scanned_for_all(start, folder, monkeypatch):
    service = start({"things": folder}, max_answers=100)
    monkeypatch.setattr(CodeIndex, "range_search", lambda *_, **__: pytest.fail("all rows were collected"))
    body = {"queries": [[0.0] * 8], "threshold": -(10.0**9)}
    assert "more than 100 rows" in error_of(service.post("/v1/things/range_search", json=body), 422)


def test_a_token_file_that_others_can_change_is_refused(tmp_path, caplog):
    path = tmp_path / "tokens"
    path.write_text(f"read: {READ}\n")
    for mode, warned in ((0o600, False), (0o640, False), (0o644, True)):
        caplog.clear()
        path.chmod(mode)
        assert read_tokens(path) == Tokens(READ)
        assert ("may read the tokens" in caplog.text) == warned
    link = tmp_path / "link"  # as a secret of a container is: what counts is the file behind it
    link.symlink_to("tokens")
    assert read_tokens(link) == Tokens(READ)
    path.chmod(0o646)
    for name in (path, link):
        with pytest.raises(InputError, match="may write to"):
            read_tokens(name)
    assert READ not in caplog.text
