"""Codes to answers: the index and its parts.

A writer never changes what a search may be reading. It makes a new snapshot and replaces the old one.

    code_index    CodeIndex, the class for users: adds, removes, saves and loads rows
    searchable    SearchableIndex, the searches and changes of every index, described once
    local         LocalIndex, what CodeIndex and ShardedIndex do alike: encode, search, answer as tables
    searching     one search over one snapshot: queries to answers
    filters       Filter: searches among some of the rows
    files         the folder that an index is saved as
    folders       what an index knows of folders that it was loaded from or saved to
    snapshot      the rows of an index at one moment, and how a change makes a new snapshot
    parts         runs of rows, and how they are merged
    segments | ids | bitmaps     what a run of rows consists of: codes, ids, removals
    stored        objects that never change, and their files
"""

from supquant.index.code_index import CodeIndex
from supquant.index.filters import Filter

__all__ = ["CodeIndex", "Filter"]
