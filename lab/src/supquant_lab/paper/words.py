"""Report: what the words on the page mean, for a reader who does not know the paper."""

from __future__ import annotations

OPENING = (
    "A *code* of a few bytes stands for a vector: a picture, a text. This page compares ways to learn such codes. Every query is "
    "compared with the codes of all items, and the items are sorted. A method is good if the items with the label of the query "
    "come first. Mean average precision, *MAP*, measures this: it is 1 if all of them come before all others."
)

SCOPE = (
    "The tables and figures are those of “Supervised Quantization for Similarity Search” (Wang, Zhang, Qi, Tang, Wang, CVPR "
    "2016), measured with supquant, beside every method that the paper compares with. Section 7 and the sections without "
    "a number go beyond the paper."
)

WORDS: tuple[tuple[str, str], ...] = (
    ("sq", "Supervised quantization, the method of the paper and of this library: “ours”."),
    ("pq", "Product quantization, the usual way to make codes without labels."),
    ("comparison", "Ours beside all other methods, on one data set and at one length of the codes."),
    ("bits", "The length of a code. 16 bits are 2 bytes an item, 128 bits are 16 bytes."),
    ("learned codes", "Codes of items that were in the training set with their labels."),
    ("encoded codes", "Codes of items made from their vectors alone, without their labels."),
    (
        "euclidean ranking",
        "Items are sorted by the distance between their codes and the query, as published.",
    ),
    (
        "label ranking",
        "Items are sorted by the probability that they share a label with the query. This is the default of the library.",
    ),
    ("joint, alternating", "Two ways to solve for the same codes: ours, and the steps of the paper."),
    (
        "classifier",
        "It predicts a label for each item and stores that instead of a code: a mark to reach where labels are all that counts.",
    ),
    ("cell", "One measurement: a data set, a method, a length, a seed."),
    ("seed", "The number that decides how rows are divided. Several seeds show how much a result varies."),
    ("anchors", "Training rows with which vectors are compared to make features."),
)
"""Words and their meanings, in the order in which a reader meets them."""
