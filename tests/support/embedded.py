"""Questions that come with the package, and their vectors in place of the encoder that made them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from supquant import open_vectors
from supquant.demo import ASKED, QUESTIONS

N_ASKED = 8


def load_questions() -> SimpleNamespace:
    """Return 1,200 questions (ids, texts, intents, which may be None, vectors X), and others that are asked, with vectors Q."""
    items = open_vectors(QUESTIONS, labels="intent", ids="id", metadata=["text"])
    asked = open_vectors(ASKED, metadata=["text"])
    n = 1200
    return SimpleNamespace(
        ids=items.ids[:n].tolist(),
        texts=items.metadata["text"].to_pylist()[:n],
        intents=items.labels[:n].tolist(),
        X=items.X[:n],
        asked=asked.metadata["text"].to_pylist()[:N_ASKED],
        Q=asked.X[:N_ASKED],
    )


class Lookup:
    """Has the vector of each question, by its text. It has the methods of LangChain's `Embeddings`."""

    def __init__(self, questions: SimpleNamespace) -> None:
        texts, vectors = questions.texts + questions.asked, [*questions.X, *questions.Q]
        self._vectors = dict(zip(texts, vectors, strict=True))

    def embed_documents(self, texts: list[str]) -> list[Any]:
        """Return the vectors of texts."""
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text: str) -> Any:
        """Return the vector of a text."""
        return self._vectors[text].tolist()
