"""The default model: codes that keep what vectors mean and where they lie.

`SupervisedQuantizer.fit` uses these files, roughly in this order; `docs/design/model.md` has their mathematics.

quantizer          the estimator, and its fit from top to bottom
spelling           labels as a few words, each of which is a column
words              the purposes of codewords, and the search for the code of an item
features           what a fit learns before codebooks: classifier, novelty, likeness, position
label_kernel       the settings of the classifier, the rows that it holds out, its anchors
kernel_rows        labelled rows seen through the kernel, and the sums over them
kernel_classifier  least squares, then logistic regression
class_means        the classifier of many classes
position           coordinates and a metric in which classes lie close together
found_classes      clusterings of rows with and without labels, and when two new rows share a class
novelty            how new a vector looks, from the rows without labels near it
left_out           how new a vector looks, from classes that are left out, if few rows have no label
feature_map        the learned map from vectors to features
clusters           the part of the map that compares vectors by clusterings
added_classes      classes that are added after the fit
unseen_rows        features of training rows, changed to those of rows not seen
item_rows          the item vectors to learn codebooks from, and the codes of all rows
item_codes         codebooks: residual quantization, then least squares and codes in turn
codec              the learned codec: it encodes, decodes and makes look-up tables
vectors            the vectors of items and queries, whose products are the scores
exact              the scores of items whose whole vectors are kept, for the first answers
calibration        curves from scores to probabilities
summary            counts, the expected quality of retrieval, and warnings
discovery          classes that nobody has labelled: groups that the clusterings agree on, and which of them a vector belongs to
"""

from typing import TYPE_CHECKING

from supquant.lazy import lazy_names

if TYPE_CHECKING:
    from supquant.model.codec import SupervisedCodec
    from supquant.model.discovery import FoundClasses
    from supquant.model.label_kernel import LabelKernel
    from supquant.model.quantizer import SupervisedQuantizer

__all__ = ["FoundClasses", "LabelKernel", "SupervisedCodec", "SupervisedQuantizer"]

__getattr__ = lazy_names(
    __name__,
    {
        "codec": ("SupervisedCodec",),
        "discovery": ("FoundClasses",),
        "label_kernel": ("LabelKernel",),
        "quantizer": ("SupervisedQuantizer",),
    },
)
