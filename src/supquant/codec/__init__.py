"""Vectors to codes, codes to vectors, queries to tables: the frozen codec that a model file or an index holds.

Every quantizer and every hashing method has a codec after its fit. It holds arrays and settings alone, and refitting the
estimator does not change it. An index uses a codec through `AnyCodec`.

    interface         the protocol of codecs, and the tables of queries
    curves            curves from scores to probabilities
    queries           products of rows: the same bits for one row alone and in a batch
    feature_maps      the protocols of feature maps, and the modules of those that a file may hold
    prefixes          arrays of one part within the arrays of the whole
    base              what all codecs share: rows in blocks, the check of codes, files
    codebooks         what codecs share whose codes are sums of codewords
    additive          AdditiveCodec: sums of codewords, ranked by meaning or by distance
    meaning           its label vectors, and the probabilities that their products stand for
    semantic          SemanticCodec: sums of codewords that say what an item is and where it lies
    semantic_queries  its look-up tables
    semantic_vectors  its vectors of items and queries, whose products are scores
    spelling          its labels in a space of bounded width: one, two or three words each
    words             the purposes of its codewords
    binary            BinaryCodec: bits, ranked by Hamming distance
    labels            LabelCodec: labels, ranked by class scores
    item_queries      items of an index as queries, by their codes
    loader            a file to the codec it holds
"""

from supquant.codec.additive import (
    RANKINGS,
    AdditiveCodec,
    Ranking,
    label_columns,
)
from supquant.codec.binary import BinaryCodec
from supquant.codec.codebooks import MissingLabels
from supquant.codec.curves import least_product
from supquant.codec.feature_maps import FeatureMap, MeaningFeatures, block_rows
from supquant.codec.interface import AnyCodec, QueryTables
from supquant.codec.item_queries import item_tables
from supquant.codec.labels import LabelCodec, check_label_count
from supquant.codec.loader import codec_of_file, load_codec, load_codec_of
from supquant.codec.meaning import Meaning, label_probabilities
from supquant.codec.queries import row_products
from supquant.codec.semantic import SemanticCodec

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
    "codec_of_file",
    "item_tables",
    "label_columns",
    "label_probabilities",
    "least_product",
    "load_codec",
    "load_codec_of",
    "row_products",
]
