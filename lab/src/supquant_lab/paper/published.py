"""Report: the numbers that the supervised quantization paper printed.

"Supervised Quantization for Similarity Search", X. Wang, Zhang, Qi, Tang, J. Wang, CVPR 2016. Most of its results
are curves without numbers. The numbers here are printed in its tables or text; none is read off a curve.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

LENGTHS = (16, 32, 64, 128)
"""Code lengths of the paper, in bits."""

DATASETS = ("cifar10", "mnist", "nuswide", "imagenet")
"""Data sets of the paper."""

METHODS = frozenset(
    {"sq", "sq-triplet", "sq-no-transform", "cq", "sdh", "sdh-linear", "ksh", "fasthash"}
    | {"cca-itq", "ssh", "mlh", "bre", "euclidean"}
)
"""Methods that the paper measured, as a number or as a curve."""


@dataclass(frozen=True)
class Number:
    """A MAP of the paper; `derived` if the paper printed only its difference to another number."""

    value: float
    derived: bool = False


@dataclass(frozen=True)
class Penalties:
    """The best gamma and mu of the paper at 16 bits, and their validation MAP."""

    quantization_weight: float
    constraint_weight: float
    validation_map: float


@dataclass(frozen=True)
class StandIn:
    """A data set of the paper that we cannot get, and how the one that we measure instead differs from it.

    Attributes
    ----------
    dataset : str
        The paper's data set.
    difference : str
        Sentences for the reader of the report.
    """

    dataset: str
    difference: str


def published_map(dataset: str, method: str, bits: int) -> Number | None:
    """Return the MAP that the paper printed; None where it printed none.

    Examples
    --------
    >>> published_map("mnist", "sq", 16)
    Number(value=0.9329, derived=False)
    >>> published_map("mnist", "ksh", 16) is None
    True

    A data set that stands in for another has no number of the paper: these are other data.

    >>> published_map("tinyimagenet-1500", "sq", 16) is None
    True
    >>> published_map(STAND_INS["tinyimagenet-1500"].dataset, "sq", 16).value
    0.5039
    """
    return _MAP.get((dataset, method), {}).get(bits)


def _row(*values: float) -> Mapping[int, Number]:
    return {bits: Number(value) for bits, value in zip(LENGTHS, values, strict=False)}


_MAP: Mapping[tuple[str, str], Mapping[int, Number]] = {
    ("cifar10", "sq"): _row(0.6045, 0.6855, 0.7042, 0.7120),
    ("mnist", "sq"): _row(0.9329, 0.9374, 0.9377, 0.9400),
    ("nuswide", "sq"): _row(0.5452),
    ("imagenet", "sq"): _row(0.5039),
    ("cifar10", "sq-triplet"): _row(0.3284, 0.3679, 0.5305, 0.5469),
    ("mnist", "sq-triplet"): _row(0.4347, 0.5286, 0.6442, 0.7500),
    ("cifar10", "sq-no-transform"): _row(0.5140, 0.5174, 0.5274, 0.5301),
    ("mnist", "sq-no-transform"): _row(0.4534, 0.4538, 0.4617, 0.4650),
    ("cifar10", "sdh"): {64: Number(0.4676, derived=True), 128: Number(0.4805, derived=True)},
    ("cifar10", "cq"): {16: Number(0.1788, derived=True)},
    ("mnist", "cq"): {16: Number(0.4715, derived=True)},
    ("nuswide", "sdh"): {16: Number(0.4987, derived=True)},
    ("nuswide", "cq"): {16: Number(0.3913, derived=True)},
}

PENALTIES: Mapping[str, Penalties] = {
    "cifar10": Penalties(1e-2, 1e-1, 0.6132),
    "mnist": Penalties(1e-7, 1e1, 0.9449),
    "nuswide": Penalties(1e-5, 1e-1, 0.5466),
    "imagenet": Penalties(1e0, 1e2, 0.5372),
}

STAND_INS: Mapping[str, StandIn] = {
    "tinyimagenet-1500": StandIn(
        "imagenet",
        "The paper's number is that of ImageNet: 1,000 classes, 1.3 million pictures, 4,096 features. Tiny-ImageNet "
        "stands in for it: 200 classes, 110,000 pictures, 256 features of another network. This is other data: the two "
        "numbers cannot be compared directly.",
    )
}
"""Stand-ins by the name of the data set that we measure. `published_map` does not know these names, so no number is shown by
mistake."""
