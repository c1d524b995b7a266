"""Report: what every method that can be compared looks like.

A method is fitted to training rows at a code length. What is fitted stores items and ranks them for queries
in named steps, each of which takes what the one before it gave, so that the same steps are scored in blocks
and timed one by one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from supquant.arrays import Array
from supquant.features import AnchorKernel, GaussianMap
from supquant.progress import Progress

if TYPE_CHECKING:
    from supquant_experiments.methods.kept import KeptFits

Callback = Callable[[Progress], None]
Steps = Mapping[str, Callable[[Array], Array]]
"""Some of `STEP_NAMES`, in their order: from queries (q, d) to the scores (q, n) of all items, smaller is
nearer."""

STEP_NAMES = ("features", "projection", "tables", "encode", "scan")

Items = Literal["learned", "encoded"]

PUBLISHED_ANCHORS = 1000


def apply_steps(steps: Steps, queries: Array) -> Array:
    """Give the scores (q, n) of all items.

    Examples
    --------
    >>> apply_steps({"features": lambda x: x + 1, "scan": lambda x: 10 * x}, 1)
    20
    """
    return reduce(lambda value, step: step(value), steps.values(), queries)


def _no_rows() -> Array:
    return np.empty((0, 0), dtype=np.float32)


@dataclass(frozen=True)
class Training:
    """What a method learns from: rows with labels and, for methods that have a use for them, rows without.

    Examples
    --------
    >>> training = Training(np.zeros((2, 1)), np.array([5, 7]), np.ones((1, 1)))
    >>> training.every_row.shape, training.every_label
    ((3, 1), masked_array(data=[5, 7, --],
                 mask=[False, False,  True],
           fill_value=999999))
    """

    X: Array  # (n, d) float32
    y: Array  # (n,) or (n, L)
    unlabelled: Array = field(default_factory=_no_rows)  # (u, d) float32

    @property
    def every_row(self) -> Array:
        """The rows (n + u, d), those with labels first; without others it is `X` itself."""
        return self.X if len(self.unlabelled) == 0 else np.vstack([self.X, self.unlabelled])

    @property
    def every_label(self) -> Array:
        """The labels of `every_row`, masked where they are not known; `y` itself where all are."""
        n, u = len(self.y), len(self.unlabelled)
        if u == 0:
            return self.y
        masked: Array = np.ma.masked_array(np.resize(self.y, (n + u, *self.y.shape[1:])), mask=False)
        masked[n:] = np.ma.masked
        return masked

    def labelled(self) -> Training:
        """Return the rows with labels alone."""
        return Training(self.X, self.y)


@dataclass(frozen=True)
class Settings:
    """What may be set, for every method alike.

    Attributes
    ----------
    anchors : int, optional
        Of the kernel features, for the methods that are published with them; 0 takes vectors as they are. None is the
        published 1,000, except for `sq` ranked by meaning or position, which then takes the library's own features.
    ranking : str, optional
        What the fit is to be ranked by, where it matters.
    bandwidth : float, optional
        Of the kernel; by the published rule if None.
    kernel_for_all : bool
        Whether methods that are published on raw vectors get the kernel features too.
    missing_labels : {"predict", "drop"}
        How `sq` encodes an item that comes without labels.
    time_limit : float, optional
        Seconds that a fit may take, of one code length: at the first step after them it ends with the model that it
        has. Methods that report no steps are not limited.
    parameters : mapping
        What the estimator is told beyond its own defaults.
    """

    seed: int = 0
    anchors: int | None = None
    ranking: str | None = None
    bandwidth: float | None = None
    kernel_for_all: bool = False
    missing_labels: str = "predict"
    n_jobs: int | None = None
    time_limit: float | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @property
    def n_anchors(self) -> int:
        """Of the kernel features."""
        return PUBLISHED_ANCHORS if self.anchors is None else self.anchors

    def features(self) -> AnchorKernel | None:
        """Give the kernel features, not yet fitted."""
        if self.n_anchors == 0:
            return None
        return AnchorKernel(
            self.n_anchors, bandwidth=self.bandwidth, n_jobs=self.n_jobs, random_state=self.seed
        )

    def fitted_features(self, X: Array) -> GaussianMap | None:
        """Give the kernel features, fitted to vectors X (n, d)."""
        kernel = self.features()
        return None if kernel is None else kernel.fit(X).map_


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
    truncated : bool
        Whether this fit, or one that it started from, was ended by the time limit.
    convergence : sequence of (float, float)
        Seconds and the objective after each step of this fit, where the method reports them.
    """

    fit_seconds: float = 0.0
    chain_seconds: float = 0.0
    parameters: Mapping[str, Any]
    truncated: bool = False
    convergence: Sequence[tuple[float, float]] = ()

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
    """Fits one training set at any code length.

    Attributes
    ----------
    name : str
        By which it is asked for.
    rankings : tuple of str
        The first one is the default.
    published : {"learned", "encoded"}
        Which items the method's published figures are about.
    grid : mapping
        What is worth tuning, and the values to try.
    """

    name: ClassVar[str]
    rankings: ClassVar[tuple[str, ...]] = ("euclidean",)
    published: ClassVar[Items] = "learned"
    grid: ClassVar[Mapping[str, Sequence[Any]]] = {}

    def __init__(
        self,
        training: Training,
        settings: Settings,
        callback: Callback | None = None,
        kept: KeptFits | None = None,
    ) -> None:
        self.training = training
        self.settings = settings
        self.callback = callback
        self.kept = kept

    @abstractmethod
    def fitted(self, bits: int) -> Fitted:
        """Give the method at this code length."""
