"""supquant: short codes learned from labelled vectors, searched by table look-ups."""

from supquant.codec import Codec
from supquant.errors import FileFormatError, InputError, SupquantError
from supquant.features import AnchorKernel
from supquant.quantizers import ProductQuantizer, SupervisedQuantizer

__all__ = [
    "AnchorKernel",
    "Codec",
    "FileFormatError",
    "InputError",
    "ProductQuantizer",
    "SupervisedQuantizer",
    "SupquantError",
]


def __dir__() -> list[str]:
    return __all__
