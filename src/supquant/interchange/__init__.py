"""Codes for other libraries: an index leaves as one that FAISS searches."""

from supquant.interchange.faiss_export import to_faiss

__all__ = ["to_faiss"]


def __dir__() -> list[str]:
    return __all__
