"""Vectors to codes, codes to vectors, queries to tables: the frozen thing that a model file or an index holds.

Every quantizer and every hashing method ends in a codec; it carries arrays and settings only, and refitting the estimator
does not change it. `AnyCodec` is all that an index knows of one.

    interface   the protocol, QueryTables, feature maps
    queries     products of rows, of which one alone and in a batch gives the same bits
    base        what the codecs share: rows in blocks, files
    meaning     Meaning: label vectors, and the probabilities that their products stand for
    spelling    labels in a space of bounded width: one word each, or two or three of many
    semantic    SemanticCodec: sums of codewords that say what an item is and where it lies
    additive    AdditiveCodec: sums of codewords, ranked by meaning or by distance
    binary      BinaryCodec: bits, Hamming ranking
    labels      LabelCodec: labels, ranked by class scores
    loader      a file to the codec it holds
"""

from supquant.codec.additive import (
    RANKINGS,
    AdditiveCodec,
    MissingLabels,
    Ranking,
    label_columns,
    spread_codes,
)
from supquant.codec.binary import BinaryCodec
from supquant.codec.interface import (
    AnyCodec,
    FeatureMap,
    QueryTables,
    block_rows,
    least_product,
)
from supquant.codec.labels import LabelCodec, check_label_count
from supquant.codec.loader import load_codec, load_codec_of
from supquant.codec.meaning import Meaning, label_probabilities
from supquant.codec.queries import row_products
from supquant.codec.semantic import MeaningFeatures, SemanticCodec

__all__ = [
    "RANKINGS",
    "AdditiveCodec",
    "AnyCodec",
    "BinaryCodec",
    "FeatureMap",
    "LabelCodec",
    "Meaning",
    "MeaningFeatures",
    "MissingLabels",
    "QueryTables",
    "Ranking",
    "SemanticCodec",
    "block_rows",
    "check_label_count",
    "label_columns",
    "label_probabilities",
    "least_product",
    "load_codec",
    "load_codec_of",
    "row_products",
    "spread_codes",
]
