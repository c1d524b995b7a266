"""The speed of searching codes, compared with the indexes of FAISS.

codes      what is measured: cells, their codes, and checks of the answers against a brute force
sides      the indexes that are compared, asked from tables and from queries
figures    the measured figures and their limits
run        the whole benchmark
plot       the picture
"""

from supquant_lab.bench.search.plot import plot_search
from supquant_lab.bench.search.run import bench_search

__all__ = ["bench_search", "plot_search"]
