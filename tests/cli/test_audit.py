"""`supquant audit` writes a page and tables."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from supquant.cli import app


@pytest.fixture(scope="module")
def items(digits, tmp_path_factory):
    X, y = digits
    path = tmp_path_factory.mktemp("items") / "items.parquet"
    labels = y.copy()
    labels[3] = 8
    vectors = pa.FixedSizeListArray.from_arrays(X[:400].ravel(), X.shape[1])
    texts = [f"what the row number {row} says" for row in range(400)]
    pq.write_table(
        pa.table({"id": np.arange(400) + 7, "embedding": vectors, "label": labels[:400], "text": texts}), path
    )
    return path


def test_command_writes_page_and_table(items, tmp_path):
    page, table = tmp_path / "audit.html", tmp_path / "audit.csv"
    done = CliRunner().invoke(app, ["audit", str(items), "-o", str(page), "-o", str(table)])
    assert done.exit_code == 0, done.output
    assert "rows      400" in done.output
    assert "what the row number 3 says" in page.read_text(encoding="utf-8")
    assert table.read_text().splitlines()[1].startswith("label,3,10,8,3,")


def test_command_refuses_other_outputs_and_missing_files(items, tmp_path):
    done = CliRunner().invoke(app, ["audit", str(items), "-o", str(tmp_path / "audit.pdf")])
    assert done.exit_code == 2
    assert "expected a name that ends in .html or .csv or .parquet" in done.output
    assert CliRunner().invoke(app, ["audit", str(tmp_path / "no.parquet")]).exit_code == 2
