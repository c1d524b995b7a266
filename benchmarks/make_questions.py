"""Make the questions that come with the package, for quickstarts, tests and examples.

python benchmarks/make_questions.py FOLDER

The folder has banking77_minilm.npz, which docs/maintainers/datasets.md describes, and banking77_texts.csv: its texts with their
categories.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from supquant.demo import ASKED, QUESTIONS

CLASSES, ROWS = 40, 90
N_KNOWN = 30  # classes of which some rows are labelled
N_ASKED = 50
FIRST_ASKED = ["Can I top-up via Apple Pay?", "Are there any top-up limits?"]  # a known intent, a new one

SOURCE = "A part of Banking77 by PolyAI (Casanueva et al. 2020), CC BY 4.0; embeddings by all-MiniLM-L6-v2"


def main(folder):
    with np.load(folder / "banking77_minilm.npz") as file:
        X, y = file["X"].astype(np.float32), file["y"]
    texts = pd.read_csv(folder / "banking77_texts.csv")
    rng = np.random.default_rng(0)
    classes = np.sort(rng.permutation(y.max() + 1)[:CLASSES])
    rows = np.concatenate([rng.permutation(np.flatnonzero(y == each))[:ROWS] for each in classes])
    rows = rng.permutation(rows)
    told = (y[rows] < classes[N_KNOWN]) & (rng.random(len(rows)) < 0.5)
    others = np.setdiff1d(np.flatnonzero(np.isin(y, classes)), rows)
    names = texts["category"].to_numpy()
    first = [others[texts["text"][others] == text][0] for text in FIRST_ASKED]
    drawn = np.setdiff1d(rng.permutation(others)[:N_ASKED], first, assume_unique=True)
    asked = np.append(first, drawn)[:N_ASKED]
    # Few distinct numbers make a small file. The vectors are of unit length, but for this rounding.
    scale = np.abs(X[rows]).max() / 127
    rounded = np.round(X / scale).astype(np.float32) * np.float32(scale)
    columns = {"id": [f"q{row}" for row in range(len(rows))], "intent": np.where(told, names[rows], None)}
    write(QUESTIONS, columns, texts["text"][rows], names[rows], rounded[rows])
    write(ASKED, {}, texts["text"][asked], names[asked], rounded[asked])


def write(path, columns, texts, intents, X):
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), X.shape[1])
    table = pa.table({**columns, "text": pa.array(texts), "true_intent": intents, "embedding": vectors})
    table = table.replace_schema_metadata({"source": SOURCE})
    pq.write_table(table, path, compression="zstd", compression_level=19)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
