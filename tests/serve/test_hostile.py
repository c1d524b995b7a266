"""Clients that would hurt a service: each is refused, and others are answered as before."""

import time

import pytest

from supquant.client import Client
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
