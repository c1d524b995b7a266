"""Report: `euclidean`, the vectors themselves, ranked by their distance to the query."""

from __future__ import annotations

from supquant.evaluation import euclidean_scores
from supquant.experiments.methods.interface import Array, Fitted, Method, Steps


class FittedVectors(Fitted):
    """Nothing is learned; items are vectors (n, d) float32."""

    def __init__(self) -> None:
        self.parameters = {}

    def encoded(self, X: Array) -> Array:
        """Give the vectors as they are."""
        return X

    def steps(self, items: Array, ranking: str) -> Steps:
        """Give the one step there is."""
        del ranking
        return {"scan": euclidean_scores(items)}

    def bytes_per_item(self, items: Array) -> float:
        """Give four bytes a dimension."""
        return float(items.itemsize * items.shape[1])


class EuclideanVectors(Method):
    """`euclidean`: the same at any code length."""

    def fitted(self, bits: int) -> FittedVectors:
        """Give vectors, whatever the length."""
        del bits
        return FittedVectors()
