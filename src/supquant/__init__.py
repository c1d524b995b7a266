"""supquant: short codes learned from labelled vectors, searched by table look-ups.

Names are imported when they are first used: what only searches never waits for scikit-learn.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from supquant.lazy import lazy_names

if TYPE_CHECKING:
    from supquant.auditing import Audit, audit
    from supquant.baselines import CompositeQuantizer, OptimizedProductQuantizer, ProductQuantizer
    from supquant.client import Client
    from supquant.codec.additive import AdditiveCodec
    from supquant.distributed import ShardedIndex
    from supquant.errors import DeviceError, FileFormatError, InputError, SaveConflictError, SupquantError
    from supquant.index import CodeIndex
    from supquant.kernels import use_device
    from supquant.model import FoundClasses, LabelKernel, SupervisedCodec, SupervisedQuantizer
    from supquant.models import load_model
    from supquant.published import AnchorKernel, PublishedQuantizer
    from supquant.sources import VectorSource, open_vectors

_NAMES = {
    "auditing": ("Audit", "audit"),
    "baselines": ("CompositeQuantizer", "OptimizedProductQuantizer", "ProductQuantizer"),
    "client": ("Client",),
    "codec.additive": ("AdditiveCodec",),
    "distributed": ("ShardedIndex",),
    "errors": ("DeviceError", "FileFormatError", "InputError", "SaveConflictError", "SupquantError"),
    "index": ("CodeIndex",),
    "kernels.device": ("use_device",),
    "model": ("FoundClasses", "LabelKernel", "SupervisedCodec", "SupervisedQuantizer"),
    "models": ("load_model",),
    "published": ("AnchorKernel", "PublishedQuantizer"),
    "sources": ("VectorSource", "open_vectors"),
}

__all__ = [
    "AdditiveCodec",
    "AnchorKernel",
    "Audit",
    "Client",
    "CodeIndex",
    "CompositeQuantizer",
    "DeviceError",
    "FileFormatError",
    "FoundClasses",
    "InputError",
    "LabelKernel",
    "OptimizedProductQuantizer",
    "ProductQuantizer",
    "PublishedQuantizer",
    "SaveConflictError",
    "ShardedIndex",
    "SupervisedCodec",
    "SupervisedQuantizer",
    "SupquantError",
    "VectorSource",
    "__version__",
    "audit",
    "load_model",
    "open_vectors",
    "use_device",
]

__getattr__ = lazy_names(__name__, _NAMES)

try:
    __version__ = version("supquant")
except PackageNotFoundError:  # the sources run in place
    __version__ = "not installed"


def __dir__() -> list[str]:
    return __all__
