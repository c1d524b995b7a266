"""Comparisons: data sets, methods, cells, the report of the paper, and benchmarks."""
