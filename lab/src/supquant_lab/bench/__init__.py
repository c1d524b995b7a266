"""Benchmarks: speed as ratios within one run, reported together with quality."""
