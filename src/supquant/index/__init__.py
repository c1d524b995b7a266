"""Codes to answers: the index, and what it is made of.

Writers change nothing that a search may be reading: they make a new snapshot and put it in the place of the old one.

    code_index    CodeIndex, the one class for users
    searching     queries to answers, on an index as it is at one moment
    filters       Filter: searches among some of the rows
    files         the folder that an index is saved as
    snapshot      what an index holds at one moment, and what writers make of it
    parts         runs of rows, and how they are merged
    topk          scans of several runs of rows, merged into one answer
    segments | ids | bitmaps     what a run of rows is made of: codes, ids, removals
    stored        things that never change, and their files
"""

from supquant.index.code_index import CodeIndex
from supquant.index.filters import Filter

__all__ = ["CodeIndex", "Filter"]
