"""The published method: "Supervised Quantization for Similarity Search" (Wang, Zhang, Qi, Tang, Wang, CVPR 2016).

quantizer      PublishedQuantizer: parameters, and the fit from top to bottom
chain          longer codes that start from a shorter one
anchor_kernel  AnchorKernel: vectors to features
training       the state of a fit, from the published start to longer codes
solvers        the two solvers
objective      psi for given codes
projections    the projection in psi, learned or fixed
lbfgs          L-BFGS over the used codewords
rows           passes over the rows, and the sums that solvers get from them
calibration    probabilities for scores
"""

from supquant.published.anchor_kernel import AnchorKernel
from supquant.published.quantizer import PublishedQuantizer

__all__ = ["AnchorKernel", "PublishedQuantizer"]
