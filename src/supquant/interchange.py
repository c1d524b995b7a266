"""Index to FAISS: the same codes and the same ranking, written as an inner product that FAISS can compute.

The additive index of FAISS compares a query q with a decoded vector s by ``q . s``; its Euclidean distance leaves out the norm of
s. So each codeword gets its squared norm as one more coordinate, and each query ``z`` becomes ``[2 z, -1]``:

    [2 z, -1] . sum_m [c_m, |c_m|^2]  =  -sum_m (|c_m|^2 - 2 z . c_m)

This is the negative of our sum of tables.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import numpy as np

from supquant.codec.additive import AdditiveCodec
from supquant.errors import InputError
from supquant.model.codec import SupervisedCodec

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from supquant.index import CodeIndex

__all__ = ["to_faiss"]

BYTE_CODEWORDS = 256
"""Number of codewords that a byte can number. A smaller codebook is filled up with zeros, which no code refers to."""


def to_faiss(index: CodeIndex) -> Any:
    """Return a FAISS index of the same codes, which finds the same neighbours in the same order.

    FAISS has no feature maps, so its queries are made by the codec. The query vectors and the scores depend on the codec:

    - Codes ranked by distance take ``index.codec.transform(Q)``. The scores are inner products; ``|z|^2 + eps`` less a score is
      our squared distance.
    - Codes of meaning and position take ``index.codec.query_vectors(Q)``, for either ranking. The scores are those before they
      become probabilities.
    - Hamming codes take the codes of the queries, ``index.codec.encode_items(Q)``. The scores are Hamming distances.

    If two scores are equal, or equal up to float32 rounding, FAISS may order them differently.

    The FAISS index is a copy for searching. Removed rows are left out, and later changes of `index` do not reach it. It returns
    the ids of `index`. ``faiss.write_index`` can write it. Do not add vectors to it: FAISS would encode them in its own way.

    Parameters
    ----------
    index : CodeIndex
        Its ids must be numbers.

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
    are_row_numbers = np.array_equal(ids, np.arange(len(ids)))  # FAISS returns row numbers by default
    given = None if are_row_numbers else ids
    if codec.rankings == ("hamming",):
        return binary_index(faiss, codes, given)
    if isinstance(codec, SupervisedCodec):
        return product_index(faiss, codec.codebooks, codes, given)
    if isinstance(codec, AdditiveCodec):
        return euclidean_index(faiss, codec.codebooks, codes, given)
    raise InputError(f"FAISS has no index for a {type(codec).__name__}")


def import_faiss() -> Any:
    """Return the module of FAISS, or raise an error that says how to install it."""
    try:
        return importlib.import_module("faiss")
    except ImportError as error:
        raise ModuleNotFoundError("FAISS is not installed: pip install faiss-cpu", name="faiss") from error


def euclidean_index(
    faiss: Any, codebooks: NDArray[np.float32], codes: NDArray[np.uint8], ids: NDArray[np.int64] | None = None
) -> Any:
    """Return a FAISS index that takes vectors (q, r) and finds the rows with the smallest sums of tables.

    Parameters
    ----------
    faiss : module
    codebooks : ndarray of shape (M, K, r), float32
    codes : ndarray of shape (n, M), uint8
    ids : ndarray of shape (n,), int64, or None, default=None
        None for row numbers.

    Returns
    -------
    faiss.Index
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
    """Return a FAISS index that takes vectors (q, r) and finds the rows with the largest inner product.

    The parameters are those of `euclidean_index`.
    """
    M, K, r = codebooks.shape
    padded = np.zeros((M, BYTE_CODEWORDS, r), dtype=np.float32)
    padded[:, :K] = codebooks
    additive = faiss.IndexResidualQuantizer(
        r, M, 8, faiss.METRIC_INNER_PRODUCT, faiss.AdditiveQuantizer.ST_LUT_nonorm
    )
    faiss.copy_array_to_vector(padded.ravel(), additive.rq.codebooks)
    additive.rq.is_trained = additive.is_trained = True
    return put_codes(faiss, additive, codes, ids)


def binary_index(faiss: Any, codes: NDArray[np.uint8], ids: NDArray[np.int64] | None = None) -> Any:
    """Return a FAISS index of codes (n, M) that finds rows by Hamming distance; `ids` (n,) are row numbers if None."""
    flat = faiss.IndexBinaryFlat(8 * codes.shape[1])
    if ids is None:
        flat.add(codes)
        return flat
    named = faiss.IndexBinaryIDMap(flat)
    named.add_with_ids(codes, ids)
    return named


def put_codes(faiss: Any, empty: Any, codes: NDArray[np.uint8], ids: NDArray[np.int64] | None = None) -> Any:
    """Return a trained, empty flat index of FAISS filled with codes (n, M); `ids` (n,) are row numbers if None."""
    named = empty if ids is None else faiss.IndexIDMap(empty)  # IndexIDMap takes only an empty index
    faiss.copy_array_to_vector(codes.ravel(), empty.codes)
    empty.ntotal = len(codes)
    if ids is not None:
        faiss.copy_array_to_vector(ids, named.id_map)
        named.ntotal = len(codes)
    return named


def __dir__() -> list[str]:
    return __all__
