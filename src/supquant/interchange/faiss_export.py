"""Index to FAISS: the same codes behind the same question, as an inner product that FAISS can add up.

The additive index of FAISS compares by ``q . s``, and drops the squared norms of its own Euclidean distance. So each
codeword gets its squared norm as one more coordinate, and each query ``z`` becomes ``[2 z, -1]``:

    [2 z, -1] . sum_m [c_m, |c_m|^2]  =  -sum_m (|c_m|^2 - 2 z . c_m)

which is our sum of tables with its sign turned.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import numpy as np

from supquant.codec import AdditiveCodec, BinaryCodec, SemanticCodec
from supquant.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from supquant.index import CodeIndex

CODEWORDS = 256  # of a byte; a smaller codebook is filled up with codewords that no code names


def to_faiss(index: CodeIndex) -> Any:
    """Give a FAISS index of the same codes, which finds the same neighbours in the same order, ranked by distance.

    It takes queries that the codec has projected, ``index.codec.transform(Q)``, since FAISS knows no feature maps, and
    answers with inner products: ``|z|^2 + eps`` less the answer is our squared distance. Of an index of meaning and position
    it takes ``index.codec.query_vectors(Q)``, by either ranking, and answers with scores before they become probabilities. Of
    an index of Hamming
    codes it takes the queries' own codes, ``index.codec.encode_items(Q)``, and answers with Hamming distances. Where
    two scores are equal, or closer than float32 can tell, FAISS may order them otherwise.

    The FAISS index is a copy, for searching: removed rows are left out, and later changes do not reach it. It answers
    with the ids of `index`. It can be written with ``faiss.write_index``. Do not add vectors to it: FAISS would
    encode them in its own way.

    Parameters
    ----------
    index : CodeIndex
        Its ids are numbers, given or automatic.

    Returns
    -------
    faiss.Index or faiss.IndexBinary

    Raises
    ------
    InputError
        If the ids are strings.
    ImportError
        If FAISS is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> from supquant import CodeIndex, ProductQuantizer
    >>> from supquant.interchange import to_faiss
    >>> X = np.random.default_rng(0).normal(size=(300, 8)).astype(np.float32)
    >>> index = CodeIndex(ProductQuantizer(2, random_state=0).fit(X)).add(X)
    >>> theirs = to_faiss(index)
    >>> minus_sums, ids = theirs.search(index.codec.transform(X[:4]), 5)
    >>> bool((ids == index.search(X[:4], k=5)[1]).all())
    True
    """
    faiss = import_faiss()
    codec = index.codec
    ids = index.ids
    if ids.dtype.kind not in "iu":
        raise InputError(
            "FAISS keeps numbers as ids, and those of this index are strings: export an index of the same codes under "
            "numbers, CodeIndex(index.codec).add_codes(index.codes(index.ids)), whose id i is index.ids[i]"
        )
    codes = index.codes(ids)
    are_row_numbers = np.array_equal(ids, np.arange(len(ids)))  # which FAISS answers with by itself
    given = None if are_row_numbers else ids
    if isinstance(codec, BinaryCodec):
        return binary_index(faiss, codes, given)
    if isinstance(codec, SemanticCodec):
        return product_index(faiss, codec.codebooks, codes, given)
    if isinstance(codec, AdditiveCodec):
        return euclidean_index(faiss, codec.codebooks, codes, given)
    raise InputError(f"FAISS has no index for a {type(codec).__name__}")


def import_faiss() -> Any:
    """Import FAISS, or say how to get it."""
    try:
        return importlib.import_module("faiss")
    except ImportError as error:
        raise ModuleNotFoundError(
            "FAISS is not installed: pip install 'supquant[lab]' brings it", name="faiss"
        ) from error


def euclidean_index(
    faiss: Any, codebooks: NDArray[np.float32], codes: NDArray[np.uint8], ids: NDArray[np.int64] | None = None
) -> Any:
    """Make a FAISS index that takes vectors (q, r) and gives the rows whose sums of tables are the smallest.

    Parameters
    ----------
    faiss : module
    codebooks : ndarray (M, K, r) float32
    codes : ndarray (n, M) uint8
    ids : ndarray (n,) int64, optional
        Row numbers by default.
    """
    r = codebooks.shape[2]
    norms = np.einsum("mkr,mkr->mk", codebooks, codebooks)
    filled = product_index(faiss, np.concatenate([codebooks, norms[:, :, None]], axis=2), codes, ids)

    double_and_append = faiss.LinearTransform(r, r + 1, True)  # z -> A z + b = [2 z, -1]
    faiss.copy_array_to_vector(2 * np.eye(r + 1, r, dtype=np.float32).ravel(), double_and_append.A)
    faiss.copy_array_to_vector(-np.eye(1, r + 1, r, dtype=np.float32).ravel(), double_and_append.b)
    double_and_append.is_trained = True
    return faiss.IndexPreTransform(double_and_append, filled)


def product_index(
    faiss: Any, codebooks: NDArray[np.float32], codes: NDArray[np.uint8], ids: NDArray[np.int64] | None = None
) -> Any:
    """Make a FAISS index that takes vectors (q, r) and gives the rows whose decoded vectors have the greatest product.

    Parameters are those of `euclidean_index`.
    """
    M, K, r = codebooks.shape
    padded = np.zeros((M, CODEWORDS, r), dtype=np.float32)
    padded[:, :K] = codebooks
    additive = faiss.IndexResidualQuantizer(
        r, M, 8, faiss.METRIC_INNER_PRODUCT, faiss.AdditiveQuantizer.ST_LUT_nonorm
    )
    faiss.copy_array_to_vector(padded.ravel(), additive.rq.codebooks)
    additive.rq.is_trained = additive.is_trained = True
    return put_codes(faiss, additive, codes, ids)


def binary_index(faiss: Any, codes: NDArray[np.uint8], ids: NDArray[np.int64] | None = None) -> Any:
    """Make a FAISS index of codes (n, M) that compares them by Hamming distance."""
    flat = faiss.IndexBinaryFlat(8 * codes.shape[1])
    if ids is None:
        flat.add(codes)
        return flat
    named = faiss.IndexBinaryIDMap(flat)
    named.add_with_ids(codes, ids)
    return named


def put_codes(faiss: Any, empty: Any, codes: NDArray[np.uint8], ids: NDArray[np.int64] | None = None) -> Any:
    """Fill a trained, empty flat index of FAISS with codes (n, M) as they are, under ids if there are any."""
    named = empty if ids is None else faiss.IndexIDMap(empty)  # it only takes an index that is still empty
    faiss.copy_array_to_vector(codes.ravel(), empty.codes)
    empty.ntotal = len(codes)
    if ids is not None:
        faiss.copy_array_to_vector(ids, named.id_map)
        named.ntotal = len(codes)
    return named
