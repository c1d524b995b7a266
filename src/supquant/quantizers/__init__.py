"""Features to codes: quantizers, each in a file named after its method."""

from supquant.quantizers.composite import CompositeQuantizer
from supquant.quantizers.optimized_product import OptimizedProductQuantizer
from supquant.quantizers.product import ProductQuantizer
from supquant.quantizers.supervised import SupervisedQuantizer
from supquant.quantizers.triplet import TripletQuantizer

__all__ = [
    "CompositeQuantizer",
    "OptimizedProductQuantizer",
    "ProductQuantizer",
    "SupervisedQuantizer",
    "TripletQuantizer",
]
