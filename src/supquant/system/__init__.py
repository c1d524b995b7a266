"""Below the flow: what operating systems do differently. No other module asks which one it runs on.

`posix` is for Linux and macOS, and `windows` is its twin: the same names, which do the same as far as the system allows.
"""

import sys

from supquant.system.descriptors import open_descriptor

if sys.platform == "win32":
    from supquant.system.windows import (
        READ_FLAGS,
        Pipe,
        at_fork,
        count_cores,
        delete,
        delete_open,
        delete_unused,
        free_bytes,
        mark_used,
        memory_bytes,
        open_pipe,
        read_ahead,
        rename_open,
        spool_file,
        start_worker,
        sync_file,
        sync_folder,
        try_lock,
        wait_for_end,
    )
else:
    from supquant.system.posix import (
        READ_FLAGS,
        Pipe,
        at_fork,
        count_cores,
        delete,
        delete_open,
        delete_unused,
        free_bytes,
        mark_used,
        memory_bytes,
        open_pipe,
        read_ahead,
        rename_open,
        spool_file,
        start_worker,
        sync_file,
        sync_folder,
        try_lock,
        wait_for_end,
    )

__all__ = [
    "READ_FLAGS",
    "Pipe",
    "at_fork",
    "count_cores",
    "delete",
    "delete_open",
    "delete_unused",
    "free_bytes",
    "mark_used",
    "memory_bytes",
    "open_descriptor",
    "open_pipe",
    "read_ahead",
    "rename_open",
    "spool_file",
    "start_worker",
    "sync_file",
    "sync_folder",
    "try_lock",
    "wait_for_end",
]
