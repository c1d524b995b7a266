"""Findings become files and a page."""

import csv
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from supquant import InputError, audit
from supquant.auditing.report import audit_page
from supquant.demo.pictures import png


def test_tables_become_data_frames_and_files(planted, tmp_path):
    frame = planted.found.to_pandas()
    assert len(frame) == len(planted.found.findings)
    assert frame.loc[0, "id"] == planted.found.suspicious[0].id
    planted.found.save(tmp_path / "found.parquet")
    assert pq.read_table(tmp_path / "found.parquet").column("row").to_pylist() == frame["row"].tolist()
    planted.found.classes.save(tmp_path / "classes.csv")
    with (tmp_path / "classes.csv").open() as file:
        assert [line["label"] for line in csv.DictReader(file)] == [str(each) for each in range(10)]
    with pytest.raises(InputError, match=r"\.csv or \.parquet"):
        planted.found.save(tmp_path / "found.xlsx")


def test_page_shows_pictures_and_texts_and_escapes_them(planted, browse, tmp_path):
    texts = [f"a long enough text <b>{row}</b> & more" for row in range(len(planted.X))]
    columns = pa.table({"view": [png(np.zeros((2, 2)))] * len(texts), "words": texts})
    page = tmp_path / "audit.html"
    page.write_text(audit_page(planted.found, columns, "Audit of <digits>"), encoding="utf-8")
    seen = browse(page)
    row = planted.found.suspicious[0].row
    assert f"a long enough text &lt;b&gt;{row}&lt;/b&gt; &amp; more" in seen.dom
    assert "<h1>Audit of &lt;digits&gt;</h1>" in seen.dom
    assert seen.dom.count("<img ") >= len(planted.found.suspicious)
    for kind in ("label", "unlabelled", "duplicate", "classes"):
        assert f'<table data-kind="{kind}">' in seen.dom
    assert seen.console == []


def test_tables_with_long_labels_fit_into_a_window(clusters, browse, tmp_path):
    X, y = clusters
    names = np.array(["card_payment_wrong_exchange_rate", "pending_cash_withdrawal_of_money", "age"])[
        y[:200] % 3
    ]
    given = names.copy()
    given[::20] = np.where(names[::20] == "age", "card_payment_wrong_exchange_rate", "age")
    found = audit(X[:200], given)
    texts = ["Why was I charged another rate than the one that the page had shown before?"] * 200
    page = audit_page(found, pa.table({"text": texts}))
    measure = """<script>
      const wide = [...document.querySelectorAll(".scroll")].filter(each => each.scrollWidth > each.clientWidth);
      document.body.dataset.wide = wide.length;
    </script></body>"""
    path = tmp_path / "audit.html"
    path.write_text(page.replace("</body>", measure), encoding="utf-8")
    assert len(found.suspicious)
    assert 'data-wide="0"' in browse(path, "--window-size=1280,900").dom
    assert " %" not in re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
