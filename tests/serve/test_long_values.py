"""Rows with long values: no request takes more memory or time than what it sends and gets, however it refers to them."""

import base64
import struct

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from supquant import CodeIndex, InputError
from supquant.index import conditions
from supquant.index.columns import Columns
from supquant.index.conditions import limit_time, rows_of_condition
from supquant.serve.conditions import check_condition


def error_of(answer, status):
    assert answer.status_code == status, answer.text[:200]
    return answer.json()["error"]


@pytest.mark.parametrize(
    ("where", "said"),
    [
        (f"length({'||'.join(['colour'] * 14)}) > 0", "more than 100 texts of a row"),
        (f"length(concat({','.join(['colour'] * 101)})) > 0", "more than 100 texts of a row"),
        (" or ".join(f"left(colour, {n}) = 'a'" for n in range(101)), "more than 100 texts of a row"),
        (" or ".join(f"colour::text = '{n}'" for n in range(101)), "more than 100 texts of a row"),
        (" or ".join(f"coalesce(colour, 'x') = '{n}'" for n in range(101)), "more than 100 texts of a row"),
        (f"concat({','.join(['colour || ' + repr('x' * 999)] * 15)}) = ''", "more than 100 texts of a row"),
        ("colour like '%_%_%b'", "at most 2 % before its end"),
        ("colour not like '_%a%%b%c'", "at most 2 % before its end"),
        ("colour ilike '%a%b%c%'", "at most 2 % before its end"),
        (" or ".join([f"regexp_matches(colour, '{'a' * 250}')"] * 5), "at most 1,024 characters together"),
    ],
)
def test_a_condition_that_would_take_much_memory_or_time_for_long_values_is_refused(service, where, said):
    assert said in error_of(service.post("/v1/things/select", json={"where": where}), 422)


@pytest.mark.parametrize(
    "where",
    [
        f"length({'||'.join(['colour'] * 13)}) > 0",
        " or ".join(f"lower(colour) like '%{n}%'" for n in range(100)),
        " and ".join(f"price + {n} + price::int > 0" for n in range(200)),
        f"colour in ({','.join(repr('x' * 20) for _ in range(600))})",
        "colour ilike '%a%b%' and colour like '%a_%' and colour like '%a%b%c%d%e'",
        "length(colour::text) > 1 and greatest(colour, 'x') > 'a'",
    ],
)
def test_many_comparisons_of_short_values_are_evaluated(where):
    check_condition(where)


def test_conditions_with_a_deadline_are_evaluated_on_few_bytes_at_a_time(monkeypatch):
    table = pa.table({"text": ["a" * 5000, "b", "c" * 1_000_000, *["d" * 1000] * 900], "row": range(903)})
    table = pa.concat_tables([table, table.slice(900)])
    pieces = conditions._in_pieces(table)
    assert pieces.equals(table)
    for batch in pieces.to_batches():
        assert batch.nbytes <= conditions._PIECE_BYTES or batch.num_rows == 1
    assert len(pieces.to_batches()) < 20
    monkeypatch.setattr(conditions, "_in_pieces", lambda _: table.slice(1, 1))
    assert len(rows_of_condition(table, "true", "row")) == 906
    with limit_time(60):
        assert len(rows_of_condition(table, "true", "row")) == 1


def test_duckdb_works_on_one_piece_at_a_time():
    table = pa.table({"text": ["a" * 1000] * 3000 + ["b" * 300_000] * 3 + ["c"] * 9000})
    sizes = []

    def seen(texts):
        sizes.append(texts.nbytes)
        return pa.array([True] * len(texts))

    connection = duckdb.connect(config={"threads": "1"})
    connection.create_function("seen", seen, ["VARCHAR"], "BOOLEAN", type="arrow")
    found = connection.from_arrow(conditions._in_pieces(table)).filter("seen(text)").to_arrow_table()
    assert found["text"].to_pylist() == table["text"].to_pylist()
    assert max(sizes) < 310_000


@pytest.fixture
def long_rows(service):
    """A client of an index of 300 rows, of which row 300 has a text of 1 MB, row 301 a list, and others have neither."""
    metadata = {
        "text": ["a" * 1_000_000, None],
        "list": [None, [1.5] * 200_000],
        "id": ["x", "y"],
        "price": [1, 2],
    }
    body = {"codes": [[1, 2]] * 2, "metadata": metadata}
    with pytest.warns(UserWarning, match="null there: colour"):
        assert service.post("/v1/things/add", json=body).json() == {"rows": 302}
    return service


TOO_MUCH = "the columns of these rows take more than 128 MiB"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("items", {"ids": [300] * 140}),
        ("items", {"ids": [301] * 20}),
        ("items", {"ids": [1, 300] * 140, "columns": ["price", "text"]}),
        ("shown", {"ids": [300] * 140}),
        ("search", {"queries": [[0.0] * 8] * 140, "k": 302, "columns": ["text"]}),
    ],
)
@pytest.mark.parametrize("accept", ["application/json", "application/vnd.apache.arrow.stream"])
def test_columns_of_an_answer_are_bounded_before_they_are_copied(long_rows, monkeypatch, path, body, accept):
    asked, get = [], CodeIndex.get
    monkeypatch.setattr(
        CodeIndex, "get", lambda index, ids, *rest: asked.append(len(ids)) or get(index, ids, *rest)
    )
    answer = long_rows.post(f"/v1/things/{path}", json=body, headers={"accept": accept})
    assert TOO_MUCH in error_of(answer, 422)
    assert max(asked) <= 302  # each row once


def test_rows_that_come_often_are_answered_as_the_index_does(long_rows, folder):
    index = CodeIndex.load(folder)
    for ids in ([300, 1, 300, 301, 1], [5], [], [1, 1.0], [True, 1], ["a"], [1, "a"], [[1]], [None], [999]):
        for columns in (None, ["price"], ["text", "price"], ["id"], [], ["none"]):
            body = {"ids": ids} | ({} if columns is None else {"columns": columns})
            answer = long_rows.post("/v1/things/items", json=body)
            try:
                expected = index.get(ids or np.array([], np.int64), columns).to_pylist()
            except InputError:
                assert answer.status_code == 422
            else:
                assert answer.json() == {"items": expected}


@pytest.mark.parametrize("columns", [None, ["price"], ["id", "price"], []])
def test_a_table_of_answers_is_that_of_the_index(service, clusters, folder, columns):
    body = {"codes": [[1, 2]], "metadata": {"id": ["x"], "score": [1], "price": [3], "colour": ["red"]}}
    assert service.post("/v1/things/add", json=body).status_code == 200
    asked = {"queries": clusters[0][:3].tolist(), "k": 301} | (
        {} if columns is None else {"columns": columns}
    )
    headers = {"accept": "application/vnd.apache.arrow.stream"}
    found = service.post("/v1/things/search", json=asked, headers=headers)
    table = pa.ipc.open_stream(found.content).read_all()
    assert table.equals(CodeIndex.load(folder).search_table(clusters[0][:3], 301, columns=columns))


def test_vectors_and_reasons_of_many_rows_are_bounded(service, monkeypatch):
    monkeypatch.setattr("supquant.serve.reading.MAX_COLUMN_BYTES", 4000)
    width = service.post("/v1/things/reconstruct", json={"ids": [1]}).json()["width"]
    most = 1000 // width
    assert service.post("/v1/things/reconstruct", json={"ids": [1] * most}).status_code == 200
    said = error_of(service.post("/v1/things/reconstruct", json={"ids": [1] * (most + 1)}), 422)
    assert f"ids must be at most {most:,}, as a vector has {width:,} numbers" in said
    assert service.post("/v1/things/reconstruct", json={"ids": []}).json()["vectors"] == []
    said = error_of(service.post("/v1/things/explain", json={"query": 1, "ids": [1] * 10_001}), 422)
    assert "ids must be at most 10,000" in said


def test_only_columns_that_are_asked_for_are_read(service, monkeypatch):
    taken, take = [], Columns.take
    monkeypatch.setattr(
        Columns, "take", lambda own, *rest: taken.append((found := take(own, *rest)).column_names) or found
    )
    service.post("/v1/things/items", json={"ids": [1], "columns": ["price"]})
    assert all(names == ["price"] for names in taken)


def stream(columns, **options):
    table, sink = pa.table(columns), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return base64.b64encode(sink.getvalue().to_pybytes()).decode()


N = 2000
LONG = "a" * 100_000  # as often as there are rows, it is 200 MB


def views(text, n):
    each = struct.pack("<i4sii", len(text), text[:4].encode(), 0, 0)
    buffers = [None, pa.py_buffer(each * n), pa.py_buffer(text.encode())]
    return pa.Array.from_buffers(pa.string_view(), n, buffers)


def dictionary(text, n):
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(n, np.int8)), [text])


def runs(text, n):
    return pa.RunEndEncodedArray.from_arrays(pa.array([n], pa.int32()), pa.array([text]))


REPEATED = {
    "a dictionary": dictionary,
    "runs": runs,
    "views": views,
    "lists of views": lambda text, n: pa.ListArray.from_arrays(
        np.arange(n + 1, dtype=np.int32), views(text, n)
    ),
    "structs of dictionaries": lambda text, n: pa.StructArray.from_arrays([dictionary(text, n)], ["s"]),
}


@pytest.mark.filterwarnings("ignore:the index has columns that the metadata")
@pytest.mark.parametrize("case", REPEATED)
def test_metadata_that_refers_to_one_text_often_are_refused_or_kept_by_what_they_take(service, case):
    for text, n, status in ((LONG, N, 422), ("abc" * 9, 50, 200)):
        body = {"codes": [[1, 2]] * n, "metadata": stream({"text": REPEATED[case](text, n)})}
        answer = service.post("/v1/things/add", json=body)
        if status == 422:
            assert "metadata take more than 128 MiB" in error_of(answer, status)
        else:
            assert answer.json() == {"rows": 350}
            found = service.post("/v1/things/items", json={"ids": [349], "columns": ["text"]}).json()
            assert text in str(found)


def test_overlapping_lists_are_refused(service):
    starts, sizes = pa.array([0] * N, pa.int32()), pa.array([1000] * N, pa.int32())
    column = pa.ListViewArray.from_arrays(starts, sizes, pa.array(range(1000)))
    body = {"codes": [[1, 2]] * N, "metadata": stream({"list": column})}
    assert "cast them to lists" in error_of(service.post("/v1/things/add", json=body), 422)


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
@pytest.mark.parametrize("column", [["a" * 50] * 40, dictionary("a" * 5000, 40)], ids=["rows", "dictionary"])
def test_compressed_metadata_are_refused_before_they_are_read(service, monkeypatch, compression, column):
    body = {"codes": [[1, 2]] * 40, "metadata": stream({"colour": column, "price": range(40)})}
    assert service.post("/v1/things/add", json=body).json() == {"rows": 340}
    body["metadata"] = stream({"colour": column, "price": range(40)}, compression=compression)
    monkeypatch.setattr(pa.ipc, "open_stream", lambda _: pytest.fail("it was read"))
    assert "is compressed" in error_of(service.post("/v1/things/add", json=body), 422)


def test_damaged_streams_are_refused_in_one_line(service):
    sound = base64.b64decode(stream({"colour": ["red"], "price": [1]}))
    rng = np.random.default_rng(0)
    for _ in range(300):
        content = bytearray(sound)
        for place in rng.integers(len(content), size=3):
            content[place] = rng.integers(256)
        body = {"ids": [1], "codes": [[1, 2]], "metadata": base64.b64encode(content).decode()}
        answer = service.post("/v1/things/upsert", json=body)
        assert answer.status_code in (200, 422), answer.text[:200]


@pytest.mark.filterwarnings("ignore:the index has columns that the metadata")
def test_an_index_gets_no_more_columns_than_conditions_can_look_for(service):
    def add(names):
        return service.post(
            "/v1/things/add", json={"codes": [[1, 2]], "metadata": {name: [1] for name in names}}
        )

    assert "at most 1,000 columns, got 1,001" in error_of(add([f"c{n}" for n in range(1001)]), 422)
    assert add([f"c{n}" for n in range(998)]).status_code == 200
    assert "at most 1,000 columns, got 1,001" in error_of(add(["d"]), 422)
    assert add(["c1"]).status_code == 200
    assert "must have at most 256 characters, got 257" in error_of(add(["e" * 257]), 422)
    assert service.post("/v1/things/select", json={"where": "price < 1"}).json() == {"ids": [0]}
