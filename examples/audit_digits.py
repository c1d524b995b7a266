"""Give twenty digits a wrong label, find them, and write a page of pictures."""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from sklearn.datasets import load_digits

import supquant
from supquant.auditing.report import audit_page
from supquant.demo.pictures import png

X, y = load_digits(return_X_y=True)  # (1797, 64), (1797,)
rng = np.random.default_rng(0)
wrong = rng.choice(len(y), 20, replace=False)
given = y.copy()
given[wrong] = (y[wrong] + rng.integers(1, 10, 20)) % 10

found = supquant.audit(X, given)
first = found.suspicious[:20]
print(
    f"{np.isin(first.row, wrong).sum()} of the 20 wrong labels are among the first 20 of {len(found.suspicious)}"
)
print(f"for {(y[first.row] == first.suggested).mean():.0%} of them the right digit is suggested")

pictures = pa.table({"picture": [png(1 - row.reshape(8, 8) / 16) for row in X]})
with tempfile.TemporaryDirectory() as folder:
    page = Path(folder) / "audit.html"
    page.write_text(audit_page(found, pictures, "Audit of handwritten digits"), encoding="utf-8")
    print(f"the page has {page.read_text(encoding='utf-8').count('<img ')} pictures")
