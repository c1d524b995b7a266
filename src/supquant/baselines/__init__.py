"""Quantizers that need no labels, each in a file named after its method."""

from supquant.baselines.composite import CompositeQuantizer
from supquant.baselines.optimized_product import OptimizedProductQuantizer
from supquant.baselines.product import ProductQuantizer

__all__ = ["CompositeQuantizer", "OptimizedProductQuantizer", "ProductQuantizer"]
