"""The kernels on a GPU: CUDA C++ in `sources/`, compiled when first used, and launched through CuPy.

    transfers.py    blocks of rows to the GPU and codes back, while the block before is computed
    meaning.py      vectors to what codes are searched for
    products.py     products of rows with matrices
    searching.py    costs to codes
    scanning.py     codes and tables to the first rows; selection.py decides which bounds a scan has
    twins.py        the functions of `Kernels` that a GPU does well, for arrays of NumPy
    factors.py      what fits need of CUDA's own libraries

Additions have the order of the CPU, and multiply-adds are fused where the CPU fuses them. So products, codes and answers have the
bits of the CPU, but for sums of exponentials in float64, which are added in another order. Fits take the products
of cuBLAS, whose order is its own, and the same in every run.

This package needs CuPy. `supquant.kernels.device.cuda` imports it, or says what is missing.
"""

from supquant.kernels.cuda.compiling import name
from supquant.kernels.cuda.factors import arrays, cholesky, free_bytes, solve_cholesky
from supquant.kernels.cuda.meaning import Meaning, labelled_targets
from supquant.kernels.cuda.products import Matrix
from supquant.kernels.cuda.scanning import forget_codes, resident_bytes, scan, scan_within
from supquant.kernels.cuda.searching import Search
from supquant.kernels.cuda.transfers import encode_blocks
from supquant.kernels.cuda.twins import assign, beam, decode, gaussian, products, table_sums

__all__ = [
    "Matrix",
    "Meaning",
    "Search",
    "arrays",
    "assign",
    "beam",
    "cholesky",
    "decode",
    "encode_blocks",
    "forget_codes",
    "free_bytes",
    "gaussian",
    "labelled_targets",
    "name",
    "products",
    "resident_bytes",
    "scan",
    "scan_within",
    "solve_cholesky",
    "table_sums",
]
