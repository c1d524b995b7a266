"""The default model: codes that keep what vectors mean and where they lie."""

from typing import TYPE_CHECKING

from supquant.lazy import lazy_names

if TYPE_CHECKING:
    from supquant.model.codec import SupervisedCodec
    from supquant.model.label_kernel import LabelKernel
    from supquant.model.quantizer import SupervisedQuantizer

__all__ = ["LabelKernel", "SupervisedCodec", "SupervisedQuantizer"]

__getattr__ = lazy_names(
    __name__,
    {
        "codec": ("SupervisedCodec",),
        "label_kernel": ("LabelKernel",),
        "quantizer": ("SupervisedQuantizer",),
    },
)
