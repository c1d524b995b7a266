"""Findings become files and a page."""

import csv

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from supquant import InputError
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
