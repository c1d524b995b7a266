"""Checks of arguments, made by both implementations of the kernels before they read any array: one check for each kernel.

They protect compiled code from mistakes inside the library. Input of users has passed `supquant.inputs.validation` and
`supquant.inputs.parameters` before.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from supquant.arrays import Counts, Float32, Float64, RowNumbers
from supquant.kernels.packing import GROUP, Packed
from supquant.kernels.protocol import Numbers, Real
from supquant.kernels.queries import MeaningParts
from supquant.kernels.scanned import BLOCK_ROWS, Bytes, Cells, Scanned

MAX_CODEBOOKS = 64
"""Largest number of codebooks M, which is the number of bytes of a code."""

MAX_CODEWORDS = 256
"""Largest number of codewords K in a codebook."""

MAX_BEAM = 64
"""Largest number of codes that a beam keeps."""

MAX_FEW_LABELS = 16
"""Largest number of labels of `count_slopes`."""

MAX_DEPTH = 16
"""Largest number of levels in a decision tree."""

MAX_LEVELS = 4
"""Largest number of levels of cells."""

MAX_SUM = 0.99 * float(np.finfo(np.float32).max)
"""Sums of one entry per codebook do not overflow in float32 if the largest magnitudes of all codebooks add up to less."""


def check_array(
    array: Any, name: str, shape: tuple[int | None, ...], *dtypes: type[np.generic]
) -> tuple[int, ...]:
    """Refuse anything but a C-contiguous array of one of `dtypes` and of `shape`, where None is any length; return the shape."""
    if not isinstance(array, np.ndarray) or array.dtype.type not in dtypes or not array.dtype.isnative:
        wanted = " or ".join(np.dtype(dtype).name for dtype in dtypes)
        got = array.dtype.name if isinstance(array, np.ndarray) else type(array).__name__
        raise ValueError(f"{name} must be an array of {wanted}, got {got}")
    sizes = array.shape
    fits = len(sizes) == len(shape)
    for have, want in zip(sizes, shape, strict=False):
        fits = fits and (want is None or have == want)
    if not fits:
        text = ", ".join("any" if want is None else str(want) for want in shape)
        raise ValueError(f"{name} must have shape ({text}), got {sizes}")
    if not array.flags.c_contiguous:
        raise ValueError(f"{name} must be C-contiguous")
    return sizes


def check_codes(codes: Bytes, K: int, n_codebooks: int | None = None, name: str = "codes") -> tuple[int, int]:
    """Refuse codes that are not (n, M) uint8 below K; return n and M."""
    n, M = check_array(codes, name, (None, n_codebooks), np.uint8)
    if not 1 <= M <= MAX_CODEBOOKS:
        raise ValueError(f"{name} must have 1 to {MAX_CODEBOOKS} columns, got {M}")
    if not 1 <= K <= MAX_CODEWORDS:
        raise ValueError(f"K must be between 1 and {MAX_CODEWORDS}, got {K}")
    if n and K < MAX_CODEWORDS and (largest := int(codes.max())) >= K:
        raise ValueError(f"codes must be below K = {K}, got {largest}")
    return n, M


def check_code_sums(codes: Bytes, X: Float32, K: int, out: Float64 | None, n_threads: int) -> Float64:
    """Refuse arrays that are not codes (n, M), X (n, d) and out (M*K, d); return `out`, or zeros if it is None."""
    n, M = check_codes(codes, K)
    _, d = check_array(X, "X", (n, None), np.float32)
    check_threads(n_threads)
    if out is None:
        return np.zeros((M * K, d))
    check_array(out, "out", (M * K, d), np.float64)
    return out


def check_pair_counts(
    codes: Bytes, K: int, counts: NDArray[np.float64 | np.int64] | None, n_threads: int
) -> tuple[int, Float64]:
    """Refuse arrays that are not codes (n, M) and counts (n,); return M and the counts as float64, ones if there are none."""
    n, M = check_codes(codes, K)
    check_threads(n_threads)
    return M, np.ones(n) if counts is None else _weights(counts, n)


def check_interaction(
    codes: Bytes, counts: Float64, gram: Float64, sizes: Sequence[int] | None, n_threads: int
) -> tuple[NDArray[np.uint64], Float64]:
    """Refuse codes that are not below the sizes of their codebooks, and arrays that do not fit them.

    Returns where each codebook begins, (M + 1,) up to the width of `gram`, and the counts (u,) as float64.
    """
    width = len(gram)
    if sizes is None:
        sizes = [_codewords_of(codes, width, "gram")] * codes.shape[1]
    n, M = check_codes(codes, MAX_CODEWORDS)
    if len(sizes) != M or sum(sizes) != width or min(sizes) < 1 or max(sizes) > MAX_CODEWORDS:
        raise ValueError(f"sizes must be {M} numbers of codewords that add up to {width}, got {list(sizes)}")
    largest = codes.max(axis=0, initial=0).tolist()
    if any(code >= size for code, size in zip(largest, sizes, strict=True)):
        raise ValueError(f"codes must be below the sizes {list(sizes)}, got up to {largest}")
    check_array(gram, "gram", (width, width), np.float64)
    check_threads(n_threads)
    return np.array([0, *accumulate(sizes)], dtype=np.uint64), _weights(counts, n)


def _codewords_of(codes: Bytes, width: int, name: str) -> int:
    """Return K, given the width M*K of an array for the codes (n, M)."""
    M = check_array(codes, "codes", (None, None), np.uint8)[1]
    if M == 0 or width % M:
        raise ValueError(f"{name} must have a multiple of {M} columns, one part per codebook, got {width}")
    return width // M


def _weights(counts: NDArray[np.float64 | np.int64], n: int) -> Float64:
    check_array(counts, "counts", (n,), np.float64, np.int64)
    return counts.astype(np.float64, copy=False)


def check_assign(
    unary: Float32,
    cross: Float32,
    product: Float32,
    codes: Bytes,
    max_sweeps: int,
    n_threads: int,
) -> tuple[int, int]:
    """Refuse arrays that are not unary (n, M*K), cross and product (M*K, M*K) and codes (n, M); return M and K."""
    K = _codewords_of(codes, len(cross), "cross")
    n, M = check_codes(codes, K)
    check_array(unary, "unary", (n, M * K), np.float32)
    check_array(cross, "cross", (M * K, M * K), np.float32)
    check_array(product, "product", (M * K, M * K), np.float32)
    if max_sweeps < 1:
        raise ValueError(f"max_sweeps must be at least 1, got {max_sweeps}")
    check_threads(n_threads)
    return M, K


def check_beam(unary: Float32, cross: Float32, K: int, width: int, n_threads: int) -> tuple[int, int]:
    """Refuse arrays that are not unary (n, M*K) and cross (M*K, M*K); return n and M."""
    if not 1 <= K <= MAX_CODEWORDS:
        raise ValueError(f"K must be between 1 and {MAX_CODEWORDS}, got {K}")
    n, columns = check_array(unary, "unary", (None, None), np.float32)
    check_array(cross, "cross", (columns, columns), np.float32)
    if columns == 0 or columns % K or columns // K > MAX_CODEBOOKS:
        raise ValueError(f"unary must have 1 to {MAX_CODEBOOKS} times K = {K} columns, got {columns}")
    if not 1 <= width <= MAX_BEAM:
        raise ValueError(f"width must be between 1 and {MAX_BEAM}, got {width}")
    check_threads(n_threads)
    return n, columns // K


def check_table_sums(codes: Bytes, tables: Float32, n_threads: int) -> tuple[int, int, int]:
    """Refuse arrays that are not codes (n, M) and tables (q, M, K); return q, n and M."""
    q, M, K = check_array(tables, "tables", (None, None, None), np.float32)
    n, _ = check_codes(codes, K, n_codebooks=M)
    check_threads(n_threads)
    return q, n, M


def check_products(x: Float32, y: Packed, n_threads: int) -> int:
    """Refuse arrays that are not x (q, d) and a packed matrix (n, d); return q."""
    check_packed(y)
    q, _ = check_array(x, "x", (None, y.d), np.float32)
    check_threads(n_threads)
    return q


def check_row_dots(
    x: NDArray[np.int8] | NDArray[np.float16],
    rows: RowNumbers,
    asking: RowNumbers,
    factors: Float32,
    n_threads: int,
) -> tuple[int, int, int, int]:
    """Refuse arrays that are not x (n, d), rows and queries (r,) and factors (q, t, d); return n, d, q and t."""
    n, d = check_array(x, "x", (None, None), np.int8, np.float16)
    (r,) = check_array(rows, "rows", (None,), np.int64)
    check_array(asking, "asking", (r,), np.int64)
    q, t, _ = check_array(factors, "factors", (None, None, d), np.float32)
    if t not in (1, 2):
        raise ValueError(f"factors must be 1 or 2 of each query, got {t}")
    for numbers, name, end in ((rows, "rows", n), (asking, "asking", q)):
        if r and not 0 <= numbers.min() <= numbers.max() < end:
            raise ValueError(f"{name} must be below {end}")
    check_threads(n_threads)
    return n, d, q, t


def check_counted_exponentials(exponents: Float32, counts: Counts) -> None:
    """Refuse arrays that are not exponents and counts of the same shape, a multiple of `GROUP` wide."""
    n, d = check_array(exponents, "exponents", (None, None), np.float32)
    _check_counts(counts, "counts", n, d)


def check_count_products(x: Counts, weights: Float32) -> tuple[int, int]:
    """Refuse arrays that are not rows of counts x (n, d) and weights (L, d); return n and L."""
    n, d = _check_counts(x, "x")
    n_labels, _ = check_array(weights, "weights", (None, d), np.float32)
    return n, n_labels


def check_count_slopes(x: Counts, weights: Float32, targets: Float32, out: Float32) -> None:
    """Refuse arrays that are not those of `check_count_products`, targets (n, L) and sums (L, d) of few labels."""
    n, n_labels = check_count_products(x, weights)
    if n_labels > MAX_FEW_LABELS:
        raise ValueError(f"weights must be those of at most {MAX_FEW_LABELS} labels, got {n_labels}")
    check_array(targets, "targets", (n, n_labels), np.float32)
    check_array(out, "out", weights.shape, np.float32)


def _check_counts(x: Counts, name: str, n: int | None = None, d: int | None = None) -> tuple[int, int]:
    n, d = check_array(x, name, (n, d), np.uint16)
    if d % GROUP:
        raise ValueError(f"{name} must have a multiple of {GROUP} columns, got {d}")
    return n, d


def check_packed(y: Packed) -> None:
    """Refuse anything but a packed matrix. It has checked its arrays itself."""
    if not isinstance(y, Packed):
        raise ValueError(f"y must be a packed matrix, got {type(y).__name__}")  # noqa: TRY004


def check_gaussian(x: Float32, anchors: Packed, norms: Float32, scale: float, n_threads: int) -> int:
    """Refuse arrays that are not x (q, d), anchors (n, d) and their padded norms, and a scale above 0; return q."""
    q = check_products(x, anchors, n_threads)
    check_array(norms, "norms", (-(-anchors.n // GROUP) * GROUP,), np.float32)
    if not scale <= 0:
        raise ValueError(f"scale must be at most 0, got {scale}")
    return q


def check_meaning(parts: MeaningParts) -> None:
    """Refuse the parts of a map to features that do not fit together."""
    matrices, words, has_kernel = parts.matrices, parts.words, parts.has_kernel
    for each in matrices:
        check_packed(each)
    anchors, _, metric, _, likeness, centres = matrices
    (p,) = check_array(parts.mean, "mean", (None,), np.float32)
    L, t = check_array(words, "words", (None, None), np.int32)
    check_array(parts.shifts, "shifts", (L,), np.float32)
    check_array(parts.novelty, "novelty", (3,), np.float32)
    h, r, g = anchors.n if has_kernel else p, parts.n_columns, metric.n
    if has_kernel:
        check_array(parts.norms, "norms", (-(-h // GROUP) * GROUP,), np.float32)
    has_clusters = len(parts.cluster_ends) > 0
    w = centres.n if has_clusters else 0
    if has_clusters:
        check_array(parts.cluster_norms, "cluster_norms", (-(-w // GROUP) * GROUP,), np.float32)
        check_array(parts.cluster_ratios, "cluster_ratios", (w,), np.float32)
        check_array(parts.cluster_ends, "cluster_ends", (None,), np.int64)
        if (np.diff(parts.cluster_ends, prepend=0) < 1).any() or parts.cluster_ends[-1] != w:
            raise ValueError(f"cluster_ends must ascend to {w}, got {parts.cluster_ends}")
    found = [(each.n, each.d) for each in (*matrices[not has_kernel : 5 + has_clusters],)]
    wanted = [(h, p)] * has_kernel + [(L, h), (g, p), (g, p), (likeness.n, w)] + [(w, g)] * has_clusters
    if found != wanted:
        raise ValueError(f"matrices must have the shapes {wanted}, got {found}")
    if not L or not t or (t == 1 and r != L) or words.min() < 0 or words.max() >= r:
        raise ValueError(f"{L} labels of {t} words cannot be spelled with {r} columns")


def check_decode(codes: Bytes, codebooks: NDArray[Real], n_threads: int) -> tuple[int, int, int]:
    """Refuse arrays that are not codes (n, M) and codebooks (M, K, r); return n, M and r."""
    M, K, r = check_array(codebooks, "codebooks", (None, None, None), np.float32, np.float64)
    n, _ = check_codes(codes, K, n_codebooks=M)
    check_threads(n_threads)
    return n, M, r


def check_limit(limit: int) -> None:
    """Refuse a negative limit."""
    if limit < 0:
        raise ValueError(f"limit must not be negative, got {limit}")


def check_scanned(scanned: Scanned) -> tuple[int, int]:
    """Refuse arrays whose shapes do not fit together; return the numbers of codebooks and of rows.

    The codes are not checked. The maker of the blocks keeps them below K.
    """
    n_blocks = -(-scanned.n // BLOCK_ROWS)
    _, M, _ = check_array(scanned.blocks, "blocks", (n_blocks, None, BLOCK_ROWS), np.uint8)
    n_rows = scanned.n
    if scanned.starts is not None:
        check_array(scanned.starts, "starts", (scanned.n + 1,), np.uint32)
        n_rows = check_array(scanned.members, "members", (None,), np.uint32)[0]
    elif scanned.members is not None:
        check_array(scanned.members, "members", (scanned.n,), np.uint32)
    if scanned.cells is not None:
        _check_cells(scanned.cells, M)
    if n_rows >= 2**32:
        raise ValueError(f"rows must be fewer than 2**32, got {n_rows}")
    if scanned.eligible is not None:
        check_array(scanned.eligible, "eligible", (-(-n_rows // BLOCK_ROWS),), np.uint64)
    return M, n_rows


def _check_cells(cells: Cells, M: int) -> None:
    """Refuse cells of codebooks that do not exist, and arrays that do not fit together. Their values are not checked."""
    check_array(cells.used, "used", (M, MAX_CODEWORDS), np.uint8)
    depth = len(cells.lead)
    if not 1 <= depth <= MAX_LEVELS or not depth == len(cells.starts) == len(cells.words):
        raise ValueError(f"cells must have 1 to {MAX_LEVELS} levels with starts and words, got {depth}")
    for m, starts, words in zip(cells.lead, cells.starts, cells.words, strict=True):
        if not 0 <= m < M:
            raise ValueError(f"lead must be codebooks below {M}, got {m}")
        (n_cells,) = check_array(words, "words", (None,), np.uint8)
        check_array(starts, "starts", (n_cells + 1,), np.uint32)


def check_scan_queries(tables: Float32, M: int, query_bits: Bytes | None, n_threads: int) -> int:
    """Refuse tables that are not (q, M, K), and codes of queries that are not (q, M); return q."""
    q, _, K = check_array(tables, "tables", (None, M, None), np.float32)
    if not 1 <= M <= MAX_CODEBOOKS or not 1 <= K <= MAX_CODEWORDS:
        raise ValueError(
            f"tables must be of 1 to {MAX_CODEBOOKS} codebooks of 1 to {MAX_CODEWORDS}, got {M} of {K}"
        )
    if query_bits is not None:
        check_array(query_bits, "query_bits", (q, M), np.uint8)
    check_threads(n_threads)
    return q


def refuse_unbounded(query: int) -> NoReturn:
    """Raise the error for a table whose sums may not be finite in float32."""
    raise ValueError(
        f"the sums of table {query} must be finite in float32, got entries that are no numbers or add up to too much"
    )


def check_k(k: int) -> None:
    """Refuse a number of answers below one."""
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")


def check_limits(limits: Float32, n_queries: int) -> None:
    """Refuse limits that are not one float32 for each query, and NaN."""
    check_array(limits, "limits", (n_queries,), np.float32)
    if np.isnan(limits).any():
        raise ValueError(f"limits must be numbers, got NaN for query {int(np.isnan(limits).argmax())}")


def check_scores(
    sums: Float32, offsets: Float32, curves: Float32 | None, curve_of: RowNumbers | None
) -> None:
    """Refuse arrays that are not sums (q, k), offsets (q,), curves (c, 2, p) and numbers of curves (q,)."""
    shape = sums.shape[:1]
    if offsets.shape != shape or (curve_of is not None and curve_of.shape != shape):
        raise ValueError(f"offsets and curve_of must have one entry for each of {shape[0]} queries")
    if curves is not None and (curves.ndim != 3 or curves.shape[1] != 2 or 0 in curves.shape):
        raise ValueError(f"curves must have shape (any, 2, any), got {curves.shape}")


def refuse_curves() -> NoReturn:
    """Raise the error for the number of a curve that is not there."""
    raise ValueError("curve_of must hold numbers of curves")


def check_taken(blocks: Bytes, rows: NDArray[np.uint32]) -> tuple[int, int]:
    """Refuse rows that are not in the blocks; return the number of rows and M."""
    b, M, _ = check_array(blocks, "blocks", (None, None, BLOCK_ROWS), np.uint8)
    (n,) = check_array(rows, "rows", (None,), np.uint32)
    if n and (last := int(rows.max())) >= b * BLOCK_ROWS:
        raise ValueError(f"rows must be below {b * BLOCK_ROWS}, got {last}")
    return n, M


def refuse_distinct(n_distinct: int) -> NoReturn:
    """Refuse codes of which another number is distinct."""
    raise ValueError(f"codes must have {n_distinct} distinct ones, got another number")


def check_sorted(codes: Bytes, lead: Sequence[int]) -> int:
    """Refuse columns that are not 1 to 4 of those of codes (n, M); return n."""
    n, M = check_codes(codes, 256)
    if not 1 <= len(lead) <= MAX_LEVELS or not 0 <= min(lead) <= max(lead) < M:
        raise ValueError(f"lead must be 1 to {MAX_LEVELS} columns below {M}, got {list(lead)}")
    return n


def check_arranged(codes: Bytes, rows: NDArray[np.uint32], n_threads: int) -> tuple[int, int]:
    """Refuse rows (r,) that are not among codes (n, M); return r and M."""
    n, M = check_codes(codes, 256)
    (r,) = check_array(rows, "rows", (None,), np.uint32)
    if r and (last := int(rows.max())) >= n:
        raise ValueError(f"rows must be below {n}, got {last}")
    check_threads(n_threads)
    return r, M


def check_ensemble(
    x: Float32, features: Numbers, thresholds: Float32, leaves: Float32, n_threads: int
) -> tuple[int, int, int, int]:
    """Refuse trees whose arrays do not fit; return the numbers of rows, groups, trees in a group, and levels in a tree."""
    n, d = check_array(x, "x", (None, None), np.float32)
    groups, size, n_leaves = check_array(leaves, "leaves", (None, None, None), np.float32)
    depth = n_leaves.bit_length() - 1
    if n_leaves < 2 or n_leaves != 1 << depth or depth > MAX_DEPTH:
        raise ValueError(f"leaves must be 2**1 to 2**{MAX_DEPTH} to a tree, got {n_leaves}")
    check_array(features, "features", (groups, size, n_leaves - 1), np.int32)
    check_array(thresholds, "thresholds", (groups, size, n_leaves - 1), np.float32)
    _check_features(features, d)
    check_threads(n_threads)
    return n, groups, size, depth


def check_level(
    bins: Bytes,
    rows: NDArray[np.uint32],
    weights: Float64,
    starts: NDArray[np.uint64],
    features: Numbers,
    n_threads: int,
) -> int:
    """Refuse nodes whose rows or features do not exist; return the number of nodes."""
    d, n = check_array(bins, "bins", (None, None), np.uint8)
    (m,) = check_array(rows, "rows", (None,), np.uint32)
    check_array(weights, "weights", (m,), np.float64)
    n_nodes, n_features = check_array(features, "features", (None, None), np.int32)
    check_array(starts, "starts", (n_nodes + 1,), np.uint64)
    if not n_features:
        raise ValueError("features must have at least one to a node, got none")
    _check_features(features, d)
    if m and (last := int(rows.max())) >= n:
        raise ValueError(f"rows must be below {n}, got {last}")
    if starts[0] != 0 or starts[-1] != m or (starts[1:] < starts[:-1]).any():
        raise ValueError(f"starts must ascend from 0 to {m}, got {starts.tolist()}")
    check_threads(n_threads)
    return n_nodes


def _check_features(features: Numbers, d: int) -> None:
    if features.size and not 0 <= int(features.min()) <= int(features.max()) < d:
        raise ValueError(f"features must lie in 0 .. {d - 1}, got {features.min()} .. {features.max()}")


def check_threads(n_threads: int) -> None:
    """Refuse a number of threads below one."""
    if n_threads < 1:
        raise ValueError(f"n_threads must be at least 1, got {n_threads}")
