"""Vectors to codes, codes to vectors, queries to tables: the frozen codec that a model file or an index holds.

Every estimator has a codec after its fit. It holds only arrays and settings, and refitting the estimator does not change it.
An index uses a codec through `AnyCodec`.

    interface      the protocols of codecs and feature maps, and the tables of queries
    registry       codecs and feature maps by the type that a file names
    base           what all codecs share: rows in blocks, the check of codes, files
    codebooks      what codecs share whose codes are sums of codewords
    additive       AdditiveCodec: sums of codewords, ranked by label or by distance
    probabilities  label vectors, and curves from scores to probabilities
    queries        products of rows: the same bits for a row alone and in a batch
    gaussian_map   GaussianMap: the Gaussian kernel on anchors, and rows through any map block by block
"""

from supquant.codec.interface import AnyCodec, QueryTables
from supquant.codec.registry import codec_of_file, load_codec, load_codec_of

__all__ = ["AnyCodec", "QueryTables", "codec_of_file", "load_codec", "load_codec_of"]
