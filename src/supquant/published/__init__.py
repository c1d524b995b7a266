"""The published method: "Supervised Quantization for Similarity Search" (Wang, Zhang, Qi, Tang, Wang, CVPR 2016)."""

from supquant.published.anchor_kernel import AnchorKernel
from supquant.published.quantizer import PublishedQuantizer

__all__ = ["AnchorKernel", "PublishedQuantizer"]
