"""Benchmarks: speed as ratios within one run, reported together with quality."""


class WrongAnswersError(Exception):
    """A search or a judgement differs from what a brute force finds."""
