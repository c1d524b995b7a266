"""Codes to answers: the index, and what it is made of.

code_index    CodeIndex, the one class for users
filters       Filter: searches among some of the rows
topk          scans of several runs of rows, merged
snapshot      what an index holds at one moment: parts, and how they are merged
files         the folder that an index is saved as
segments | ids | bitmaps     what a part is made of: codes, ids, removals
stored        arrays that may lie in a file
"""

from supquant.index.code_index import CodeIndex
from supquant.index.filters import Filter

__all__ = ["CodeIndex", "Filter"]
