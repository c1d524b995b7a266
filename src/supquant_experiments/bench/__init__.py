"""Benchmarks: ratios within one run, quality beside speed."""
