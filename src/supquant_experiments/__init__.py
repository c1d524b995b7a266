"""Comparisons: methods, cells, tables made from them, benchmarks, and the demonstration."""
