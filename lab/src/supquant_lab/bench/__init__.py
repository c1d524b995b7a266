"""Benchmarks: speed as ratios within one run, with quality beside it."""
