"""Features to codes: quantizers, each in a file named after its method."""

from supquant.quantizers.product import ProductQuantizer
from supquant.quantizers.supervised import SupervisedQuantizer

__all__ = ["ProductQuantizer", "SupervisedQuantizer"]
