"""Report: fits that are kept in a folder, so that a new metric, a new timing or a longer code needs no new training.

A fit is a model file, the codes at the end of training, and a record. The record is written last, so an unfinished fit is never
used. The name has a fingerprint of the rows, of all parameters, and of `RECIPE`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xxhash

from supquant.arrays import Array
from supquant.errors import FileFormatError, InputError
from supquant.models import load_model

if TYPE_CHECKING:
    from collections.abc import Mapping

    from supquant.estimators.base import CodeEstimator
    from supquant_lab.problem import Training

RECIPE = 1
"""The version of fits. It grows when a change of the program changes fits, so that older ones are not used."""

_HASHED_ROWS = 4096


@dataclass(frozen=True)
class KeptFits:
    """A folder of fits.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     KeptFits(Path(folder)).find("sq-16bits-0123456789abcdef")
    """

    folder: Path

    def find(self, name: str) -> tuple[CodeEstimator, dict[str, Any]] | None:
        """Return the estimator and the record of a fit; None if it is not there."""
        try:
            record = json.loads(self._path(name, "json").read_text())
            estimator = load_model(self._path(name, "safetensors"))
            estimator.training_codes_ = np.load(self._path(name, "codes.npy"), allow_pickle=False)
        except FileNotFoundError:
            return None
        except (ValueError, EOFError, FileFormatError) as error:
            raise InputError(
                f"the kept fit {self._path(name, 'json')} is damaged ({error}); delete it"
            ) from error
        return estimator, record

    def keep(self, name: str, estimator: CodeEstimator, record: Mapping[str, Any]) -> None:
        """Write a fit."""
        self.folder.mkdir(parents=True, exist_ok=True)
        estimator.save(self._path(name, "safetensors"))
        np.save(self._path(name, "codes.npy"), estimator.training_codes_)
        written = self._path(name, "json.partial")
        written.write_text(json.dumps(record))
        written.replace(self._path(name, "json"))

    def _path(self, name: str, kind: str) -> Path:
        return self.folder / f"{name}.{kind}"


def fingerprint(training: Training, told: object) -> str:
    """Return a fingerprint of everything a fit depends on: up to 4,096 rows, labels and rows without labels, and parameters."""
    digest = xxhash.xxh3_64(repr((RECIPE, training.X.shape, training.y.shape, told)).encode())
    without_labels: list[Array] = []
    if len(training.unlabelled):  # so that fits without such rows keep their names
        without_labels = [training.unlabelled]
        digest.update(repr(training.unlabelled.shape).encode())
    for rows in (training.X, training.y, *without_labels):
        part: Array = np.ascontiguousarray(rows[:: -(-len(rows) // _HASHED_ROWS)])
        digest.update(part.tobytes() if part.dtype != object else repr(part.tolist()).encode())
    return digest.hexdigest()
