"""Codes for other libraries: an index is exported to FAISS."""

from supquant.interchange.faiss_export import to_faiss

__all__ = ["to_faiss"]


def __dir__() -> list[str]:
    return __all__
