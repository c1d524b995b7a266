"""Report: the interface of every method that can be compared.

A method is fitted to training rows at a code length. The fit stores items and ranks them for queries in named steps; each step
takes the result of the one before. The same steps are used for scores of blocks of queries and for times of single queries.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from supquant.arrays import Array
from supquant.codec.gaussian_map import GaussianMap
from supquant.progress import Progress
from supquant.published.anchor_kernel import AnchorKernel
from supquant_lab.problem import Training
from supquant_lab.time_limit import TimeIsUpError, TimeLimit

if TYPE_CHECKING:
    from supquant_lab.methods.kept import KeptFits


Callback = Callable[[Progress], None]
Steps = Mapping[str, Callable[[Array], Array]]
"""Some of `STEP_NAMES`, in their order: from queries (q, d) to the scores (q, n) of all items. Smaller scores are nearer."""

STEP_NAMES = ("features", "projection", "tables", "encode", "scan")

Items = Literal["learned", "encoded"]

PUBLISHED_ANCHORS = 1000


def apply_steps(steps: Steps, queries: Array) -> Array:
    """Return the scores (q, n) of all items.

    Examples
    --------
    >>> apply_steps({"features": lambda x: x + 1, "scan": lambda x: 10 * x}, 1)
    20
    """
    return reduce(lambda value, step: step(value), steps.values(), queries)


@dataclass(frozen=True)
class Settings:
    """Settings of a method.

    Attributes
    ----------
    anchors : int, optional
        Number of anchors of the kernel features, for methods that are published with them; 0 takes vectors as they are. None
        is 1,000 as published; `sq` with the label or position ranking then has the library's own features.
    ranking : str, optional
        The ranking that the fit is for.
    bandwidth : float, optional
        Bandwidth of the kernel; by the published rule if None.
    kernel_for_all : bool
        Whether methods that are published with raw vectors also get kernel features.
    missing_labels : {"predict", "drop"}
        How `sq` encodes an item without labels.
    time_limit : float, optional
        Seconds for the fit of one code length. At the first step after them the fit ends with the model that it has. Methods
        that report no steps have no limit.
    parameters : mapping
        Parameters of the estimator that are not its defaults.
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
        """The number of anchors of the kernel features."""
        return PUBLISHED_ANCHORS if self.anchors is None else self.anchors

    def features(self) -> AnchorKernel | None:
        """Return the kernel features before their fit."""
        if self.n_anchors == 0:
            return None
        return AnchorKernel(
            self.n_anchors, bandwidth=self.bandwidth, n_jobs=self.n_jobs, random_state=self.seed
        )

    def fitted_features(self, X: Array) -> GaussianMap | None:
        """Return the kernel features fitted to vectors X (n, d)."""
        kernel = self.features()
        return None if kernel is None else kernel.fit(X).map_


class Fitted(ABC):
    """A fitted method at one code length, which stores items and ranks them.

    Attributes
    ----------
    fit_seconds : float
        Seconds of this fit alone.
    chain_seconds : float
        Seconds with the fits of the shorter codes that it started from.
    parameters : mapping
        Parameters and outcomes of the fit, for the record.
    truncated : bool
        Whether this fit, or one that it started from, stopped at the time limit.
    convergence : sequence of (float, float)
        Seconds and objective after each step of this fit, if the method reports them.
    """

    fit_seconds: float = 0.0
    chain_seconds: float = 0.0
    parameters: Mapping[str, Any]
    truncated: bool = False
    convergence: Sequence[tuple[float, float]] = ()

    def __init__(
        self,
        parameters: Mapping[str, Any],
        seconds: float = 0.0,
        *,
        chain_seconds: float | None = None,
        truncated: bool = False,
        convergence: Sequence[tuple[float, float]] = (),
    ) -> None:
        self.parameters = parameters
        self.fit_seconds = seconds
        self.chain_seconds = seconds if chain_seconds is None else chain_seconds
        self.truncated = truncated
        self.convergence = convergence

    def learned(self) -> Any:
        """Return the items of the training rows that training itself made; None if it made none."""
        return None

    @abstractmethod
    def encoded(self, X: Array) -> Any:
        """Return the items of rows (n, d), made from the vectors alone."""

    @abstractmethod
    def steps(self, items: Any, ranking: str) -> Steps:
        """Return the steps from queries to the scores of the items."""

    @abstractmethod
    def bytes_per_item(self, items: Any) -> float:
        """Return the number of bytes per item in the index."""

    def distinct(self, items: Any) -> int | None:
        """Return the number of different codes; None if items are not codes."""
        del items
        return None

    def quantization_error(self, X: Array, items: Any) -> float | None:
        """Return |S - XP|^2 over the variance of XP; None if nothing is quantized."""
        del X, items
        return None


class Method(ABC):
    """A method that can be fitted to one training set at any code length.

    Attributes
    ----------
    name : str
        The name of the method.
    rankings : tuple of str
        Its rankings; the first one is the default.
    published : {"learned", "encoded"}
        The items that the method's papers measure.
    grid : mapping
        Parameters for a validation search, and the values to try.
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
        """Return the fitted method at this code length."""


@dataclass
class Watch:
    """A callback that records the objective after each step, and ends the fit when its time is up.

    Attributes
    ----------
    limit : float or None
        Seconds from when the watch was made. The fit ends at the first step after them, unless this is its last step.
    callback : callable or None
        Gets every event as well.
    convergence : list of (float, float)
        Seconds and objective of each step of the last stage.

    Examples
    --------
    >>> from supquant.progress import Reporter
    >>> watch = Watch(limit=60)
    >>> with Reporter(watch).stage("sweep") as stage:
    ...     stage.step(objective=4.0)
    >>> [objective for _, objective in watch.convergence]
    [4.0]
    """

    limit: float | None = None
    callback: Callback | None = None
    convergence: list[tuple[float, float]] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    def fit(self, estimator: Any, X: Array, y: Array) -> dict[str, Any]:
        """Fit an estimator that calls this watch; return the seconds, whether its time was up, and the convergence."""
        began, truncated = time.perf_counter(), False
        try:
            estimator.fit(X, y)
        except TimeIsUpError:
            truncated = True
        seconds = time.perf_counter() - began
        return {"seconds": seconds, "truncated": truncated, "convergence": self.convergence}

    def __call__(self, progress: Progress) -> None:
        """Record a step and pass it on; raise `TimeIsUpError` when the time is up."""
        if progress.step == 1:
            self.convergence.clear()
        if "objective" in progress.values:
            self.convergence.append((progress.elapsed, float(progress.values["objective"])))
        if self.callback is not None:
            self.callback(progress)
        TimeLimit(self.limit, self.began)(progress)
