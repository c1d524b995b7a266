"""supquant: short codes learned from labelled vectors, searched by table look-ups."""

from supquant.codec import BinaryCodec, Codec, LabelCodec
from supquant.errors import FileFormatError, InputError, SupquantError
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

__all__ = [
    "AnchorKernel",
    "BinaryCodec",
    "CodeIndex",
    "Codec",
    "CompositeQuantizer",
    "FileFormatError",
    "InputError",
    "LabelCodec",
    "LabelKernel",
    "OptimizedProductQuantizer",
    "ProductQuantizer",
    "SupervisedQuantizer",
    "SupquantError",
    "TripletQuantizer",
    "load_model",
]


def __dir__() -> list[str]:
    return __all__
