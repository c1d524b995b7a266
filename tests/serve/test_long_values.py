"""Rows with long values: no request takes more memory or time than what it sends and gets, however it refers to them."""

import duckdb
import pyarrow as pa
import pytest

from supquant.index import conditions
from supquant.index.conditions import limit_time, rows_of_condition
from supquant.serve.conditions import check_condition


def error_of(answer, status):
    assert answer.status_code == status, answer.text
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
