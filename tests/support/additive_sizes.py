"""Sizes of the codec in `codec/conftest.py`: codebooks, codewords, their dimensions, features, labels, dimensions of vectors."""

M, K, R, D, L, P = 2, 6, 5, 7, 3, 4
