"""supquant: short codes learned from labelled vectors, searched by table look-ups.

Names are imported when they are first used: what only searches never waits for scikit-learn.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from supquant.lazy import lazy_names

if TYPE_CHECKING:
    from supquant.auditing import Audit, audit
    from supquant.codec import AdditiveCodec, BinaryCodec, LabelCodec
    from supquant.errors import FileFormatError, InputError, SaveConflictError, SupquantError
    from supquant.features import AnchorKernel, LabelKernel
    from supquant.index import CodeIndex
    from supquant.models import load_model
    from supquant.quantizers import (
        CompositeQuantizer,
        OptimizedProductQuantizer,
        ProductQuantizer,
        SupervisedQuantizer,
        TripletQuantizer,
    )
    from supquant.sources import VectorSource, open_vectors

__all__ = [
    "AdditiveCodec",
    "AnchorKernel",
    "Audit",
    "BinaryCodec",
    "CodeIndex",
    "CompositeQuantizer",
    "FileFormatError",
    "InputError",
    "LabelCodec",
    "LabelKernel",
    "OptimizedProductQuantizer",
    "ProductQuantizer",
    "SaveConflictError",
    "SupervisedQuantizer",
    "SupquantError",
    "TripletQuantizer",
    "VectorSource",
    "__version__",
    "audit",
    "load_model",
    "open_vectors",
]

__getattr__ = lazy_names(
    __name__,
    {
        "auditing": ("Audit", "audit"),
        "codec": ("BinaryCodec", "AdditiveCodec", "LabelCodec"),
        "errors": ("FileFormatError", "InputError", "SaveConflictError", "SupquantError"),
        "features": ("AnchorKernel", "LabelKernel"),
        "index": ("CodeIndex",),
        "models": ("load_model",),
        "quantizers": (
            "CompositeQuantizer",
            "OptimizedProductQuantizer",
            "ProductQuantizer",
            "SupervisedQuantizer",
            "TripletQuantizer",
        ),
        "sources": ("VectorSource", "open_vectors"),
    },
)

try:
    __version__ = version("supquant")
except PackageNotFoundError:  # the sources run in place
    __version__ = "not installed"


def __dir__() -> list[str]:
    return __all__
