"""How fast codes are searched, beside the indexes of FAISS.

cells      what is measured: codes, rows, bits, queries, answers, threads
codes      uniform codes, and those of a trained model
sides      who is compared: ours and theirs, from tables and from queries
answers    ours against a brute force, before any clock starts
timing     repeats in turn, so that noise hits all alike
pieces     filters, threads, hostile tables, memory
opening    a large index opened in a fresh process
figures    what was asked for, beside what was measured
run        all of it
plot       the picture
"""

from supquant_experiments.bench.search.answers import WrongAnswersError
from supquant_experiments.bench.search.plot import plot_search
from supquant_experiments.bench.search.run import bench_search

__all__ = ["WrongAnswersError", "bench_search", "plot_search"]
