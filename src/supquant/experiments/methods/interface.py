"""Report: what every method that can be compared looks like.

A method is fitted to training rows at a code length. What is fitted stores items and ranks them for queries
in named steps, each of which takes what the one before it gave, so that the same steps are scored in blocks
and timed one by one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, ClassVar

import numpy.typing as npt

from supquant.features import AnchorKernel
from supquant.progress import Progress

if TYPE_CHECKING:
    from supquant.labels import Labels

Array = npt.NDArray[Any]
Callback = Callable[[Progress], None]
Steps = Mapping[str, Callable[[Array], Array]]
"""Some of `STEP_NAMES`, in their order: from queries (q, d) to the scores (q, n) of all items, smaller is
nearer."""

STEP_NAMES = ("features", "tables", "encode", "scan")


def apply_steps(steps: Steps, queries: Array) -> Array:
    """Give the scores (q, n) of all items.

    Examples
    --------
    >>> apply_steps({"features": lambda x: x + 1, "scan": lambda x: 10 * x}, 1)
    20
    """
    return reduce(lambda value, step: step(value), steps.values(), queries)


@dataclass(frozen=True)
class Training:
    """What a method learns from: vectors, labels as given, and labels as read."""

    X: Array  # (n, d) float32
    y: Array  # (n,) or (n, L)
    labels: Labels


@dataclass(frozen=True)
class Settings:
    """What may be set, for every method alike; None leaves the estimator's own default.

    Attributes
    ----------
    anchors : int
        Of the kernel features of `sq` and `classifier`; 0 takes vectors as they are.
    missing_labels : {"predict", "drop"}
        How `sq` encodes an item that comes without labels.
    """

    seed: int = 0
    anchors: int = 1000
    solver: str | None = None
    quantization_weight: float | None = None
    constraint_weight: float | None = None
    max_iter: int | None = None
    max_turns: int | None = None
    missing_labels: str = "predict"
    n_jobs: int | None = None

    def features(self) -> AnchorKernel | None:
        """Give the kernel features, not yet fitted."""
        if self.anchors == 0:
            return None
        return AnchorKernel(self.anchors, n_jobs=self.n_jobs, random_state=self.seed)

    def quantizer_settings(self) -> dict[str, Any]:
        """Give what `SupervisedQuantizer` is told beyond its own defaults."""
        told = {
            "solver": self.solver,
            "quantization_weight": self.quantization_weight,
            "constraint_weight": self.constraint_weight,
            "max_iter": self.max_iter,
            "max_turns": self.max_turns,
        }
        return {name: value for name, value in told.items() if value is not None}


class Fitted(ABC):
    """A method at one code length, ready to store items and rank them.

    Attributes
    ----------
    fit_seconds : float
        Of this fit alone.
    chain_seconds : float
        With the fits of the shorter codes that it started from.
    parameters : mapping
        What was set and what came out of it, for the record.
    """

    fit_seconds: float = 0.0
    chain_seconds: float = 0.0
    parameters: Mapping[str, Any]

    def learned(self) -> Any:
        """Give the training rows as they were stored by training, in their order; None if they were not."""
        return None

    @abstractmethod
    def encoded(self, X: Array) -> Any:
        """Give rows (n, d) as stored from the vectors alone."""

    @abstractmethod
    def steps(self, items: Any, ranking: str) -> Steps:
        """Give the steps from queries to the scores of the items."""

    @abstractmethod
    def bytes_per_item(self, items: Any) -> float:
        """Give the size of an item in the index."""

    def distinct(self, items: Any) -> int | None:
        """Count the different codes; None if items are no codes."""
        del items
        return None

    def quantization_error(self, X: Array, items: Any) -> float | None:
        """Give |S - XP|^2 over the variance of XP; None if nothing is quantized."""
        del X, items
        return None


class Method(ABC):
    """Fits one training set at any code length."""

    rankings: ClassVar[tuple[str, ...]] = ("euclidean",)

    def __init__(self, training: Training, settings: Settings, callback: Callback | None = None) -> None:
        self.training = training
        self.settings = settings
        self.callback = callback

    @abstractmethod
    def fitted(self, bits: int) -> Fitted:
        """Give the method at this code length."""
