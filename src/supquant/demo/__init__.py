"""The demonstration: questions to search among, and codes of two bytes for handwritten digits in a page of pictures.

The questions are a part of Banking77 by PolyAI (I. Casanueva, T. Temcinas, D. Gerz, M. Henderson, I. Vulic, *Efficient Intent
Detection with Dual Sentence Encoders*, 2020), licensed under CC BY 4.0 (https://creativecommons.org/licenses/by/4.0/). A part of
them was taken, some intents were left out, and embeddings were added: all-MiniLM-L6-v2 with mean pooling, of unit length, each
number rounded to one of 255.
"""

from pathlib import Path

__all__ = ["ASKED", "QUESTIONS"]

QUESTIONS = Path(__file__).parent / "questions.parquet"
"""A Parquet file of 3,600 questions to a bank: id, text, intent (missing for 62%), true_intent and embedding (384 dimensions)."""

ASKED = Path(__file__).parent / "asked.parquet"
"""A Parquet file of 50 other questions of the same kind, to ask: text, true_intent and embedding."""
