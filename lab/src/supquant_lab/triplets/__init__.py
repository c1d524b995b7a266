"""The triplet formulation of supervised quantization, which the paper compares with its classification loss."""

from supquant_lab.triplets.quantizer import TripletQuantizer

__all__ = ["TripletQuantizer"]
