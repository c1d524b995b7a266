"""supquant: short codes learned from labelled vectors, searched by table look-ups."""

from supquant.codec import BinaryCodec, Codec
from supquant.errors import FileFormatError, InputError, SupquantError
from supquant.features import AnchorKernel
from supquant.index import CodeIndex
from supquant.quantizers import ProductQuantizer, SupervisedQuantizer

__all__ = [
    "AnchorKernel",
    "BinaryCodec",
    "CodeIndex",
    "Codec",
    "FileFormatError",
    "InputError",
    "ProductQuantizer",
    "SupervisedQuantizer",
    "SupquantError",
]


def __dir__() -> list[str]:
    return __all__
