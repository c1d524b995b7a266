"""What `supquant bench quality` recorded, and how figures are written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import mean

from supquant_lab.bench.quality.comparison import Values, figures_by_line
from supquant_lab.bench.quality.plan import QUICK_ROWS, Line
from supquant_lab.bench.quality.run import fingerprints, read_folder

NAMES = {
    "banking77": "Banking77, sentences, 384 dimensions",
    "tinyimagenet": "Tiny-ImageNet, pictures, 256 dimensions",
    "cifar10": "CIFAR-10, GIST of pictures, 512 dimensions",
    "mnist": "MNIST, pixels, 784 dimensions",
    "coco30k": "COCO, words of pictures, several labels",
    "digits": "digits, pixels, 64 dimensions",
}
MANY_CLASSES = ("banking77", "tinyimagenet")
ONE_LABEL = (*MANY_CLASSES, "cifar10", "mnist")
LENGTHS = (16, 32, 64, 128)

NONE = "\N{EN DASH}"


def short_name(data: str) -> str:
    """Return the name of a data set without what it consists of.

    Examples
    --------
    >>> short_name("mnist")
    'MNIST'
    """
    return NAMES[data].split(",")[0]


class Results:
    """The means over seeds of what `supquant bench quality` recorded."""

    def __init__(self, folder: Path) -> None:
        records = read_folder(folder)
        self._figures: dict[Line, dict[str, Values]] = figures_by_line(records)
        present = fingerprints()
        self.older = sorted(
            {
                f"{record['kind']}, {Line(*(record[field] for field in Line._fields)).label}, of {record['commit']}"
                for record in records
                if any(record[name] != value for name, value in present.items())
            }
        )

    def get(self, kind: str, data: str, figure: str, *, variant: str = "", bits: int = 64) -> float | None:
        """Return a figure, or None if there is no record of it."""
        values = self._figures.get(Line(kind, data, QUICK_ROWS.get(data), variant, bits), {}).get(figure)
        return mean(values.values()) if values else None


def number(value: float | None, decimals: int = 3) -> str:
    """Return a fraction without its leading zero; a dash if there is none."""
    return NONE if value is None else f"{value:.{decimals}f}".replace("0.", ".", 1)


def best_bold(values: Sequence[float | None], decimals: int = 3) -> list[str]:
    """Return numbers, of which all that round to the largest are bold."""
    texts = [number(value, decimals) for value in values]
    top = number(max((value for value in values if value is not None), default=None), decimals)
    return [f"**{text}**" if text == top != NONE else text for text in texts]
