"""What all quantizers offer once they are fitted, beyond what every estimator does."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from supquant.codec import AdditiveCodec
from supquant.estimator import CodeEstimator


class FittedQuantizer(CodeEstimator):
    """The shared part of the quantizers: their codec is an `AdditiveCodec`."""

    codec_: AdditiveCodec
    _codec_type: ClassVar[tuple[type[Any], ...]] = (AdditiveCodec,)

    def transform(self, X: object) -> NDArray[np.float32]:
        """Project vectors X (n, p) into the space of the codebooks.

        Returns
        -------
        (n, r) float32
        """
        codec: AdditiveCodec = self._codec()
        return codec.transform(X, n_jobs=self.n_jobs)
