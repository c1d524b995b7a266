"""The speed of searching codes, beside the indexes of FAISS.

cells      what is measured: codes, rows, bits, queries, answers, threads
codes      uniform codes, and codes of a trained model
sides      the indexes that are compared, asked from tables and from queries
answers    checks of our answers against a brute force, before anything is timed
timing     repeats in turn, so that noise affects all sides
pieces     filters, threads, hostile tables, memory
opening    the opening of a large index in a fresh process
figures    the measured figures beside their limits
run        the whole benchmark
plot       the picture
"""

from supquant_lab.bench.search.answers import WrongAnswersError
from supquant_lab.bench.search.plot import plot_search
from supquant_lab.bench.search.run import bench_search

__all__ = ["WrongAnswersError", "bench_search", "plot_search"]
