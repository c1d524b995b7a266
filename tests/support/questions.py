"""Made-up questions of a bank's customers, and a stand-in for a sentence encoder."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

DIMENSIONS = 64

TEMPLATES = {
    "card_arrival": (
        "Where is my {} card?",
        "My {} card has not come",
        "When does the {} card arrive?",
        "I still wait for the {} card",
    ),
    "exchange_rate": (
        "What is your rate for {} money?",
        "Which {} rate do you use?",
        "Is the {} exchange rate good?",
        "How do you exchange {} money?",
    ),
    "top_up": (
        "Can I top up with {} transfer?",
        "My {} top up failed",
        "How long does a {} top up take?",
        "Why was the {} top up refused?",
    ),
}
ONE_WORD = """
old first second blue green small big quick slow late early free paid main other last next usual special foreign silver golden
heavy light plain
"""
WORDS = ONE_WORD.split()


class SentenceTransformer:
    """Adds up a random direction for every word, so that texts with the same words are near each other.

    It has the one method of `sentence_transformers.SentenceTransformer` that the documentation uses.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def encode(self, texts: str | list[str]) -> Any:
        """Return the vector of a text, or the vectors of a list of texts, of unit length."""
        if isinstance(texts, str):
            return self.encode([texts])[0]
        sums = [
            sum(np.random.default_rng(zlib.crc32(word.encode())).normal(size=DIMENSIONS) for word in words)
            for words in (text.lower().strip("?").split() for text in texts)
        ]
        X = np.array(sums, dtype=np.float32)
        return X / np.linalg.norm(X, axis=1, keepdims=True)


def make_questions() -> pd.DataFrame:
    """Return the questions with ids and intents. Two intents in five are unknown."""
    rows = [
        (template.format(word), intent)
        for intent, templates in TEMPLATES.items()
        for template in templates
        for word in WORDS
    ]
    questions = pd.DataFrame(rows, columns=["text", "intent"])
    questions.insert(0, "id", [f"q{row}" for row in range(len(questions))])
    questions.loc[questions.index % 5 < 2, "intent"] = None
    return questions


def write_items(folder: Path) -> None:
    """Write items.parquet: questions with embeddings."""
    questions = make_questions()
    questions["embedding"] = list(SentenceTransformer("").encode(questions["text"].tolist()))
    questions.to_parquet(folder / "items.parquet")
