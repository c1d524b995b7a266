"""What an index knows of folders: what it was loaded from and saved as, and where a reload looks."""

from __future__ import annotations

from pathlib import Path

from supquant.errors import InputError
from supquant.index.files import KnownFolders, StoredCodec, load_index
from supquant.index.snapshot import Snapshot

__all__ = ["Folders"]


class Folders:
    """The folders of one index.

    Parameters
    ----------
    mapped : bool, default=True
        Whether large files are mapped. Otherwise they are read and compared with their checksums.

    Attributes
    ----------
    known : KnownFolders
        The content of each folder that this index may replace. A save adds to it.
    last : (Path, Snapshot or None) or None
        The folder of the last load or save, and its rows; None instead of rows that were given up.
    """

    def __init__(self, *, mapped: bool = True) -> None:
        self.mapped = mapped
        self.known: KnownFolders = {}
        self.last: tuple[Path, Snapshot | None] | None = None

    @property
    def path(self) -> Path:
        """The folder of the last load or save."""
        if self.last is None:
            raise InputError("the index was neither loaded nor saved: it has no folder to reload")
        return self.last[0]

    def copied(self, present: Snapshot, rows: Snapshot) -> Folders:
        """Return the same of a copy of the index, which has other `rows` in place of the `present` ones."""
        copied = Folders(mapped=self.mapped)
        copied.known = self.known.copy()
        if self.last is not None:
            copied.last = self.last[0], rows if self.last[1] is present else None
        return copied

    def load(self, folder: Path) -> tuple[StoredCodec, Snapshot, Folders]:
        """Open the index in a folder, and return what is then known of folders, too."""
        codec, snapshot, digest = load_index(folder, mapped=self.mapped)
        if not self.mapped:
            snapshot.check_files()
        loaded = self.copied(snapshot, snapshot)
        loaded.known[folder.resolve()] = frozenset({digest})
        loaded.last = folder.resolve(), snapshot
        return codec, snapshot, loaded

    def load_again(self, present: Snapshot, *, discard: bool) -> tuple[StoredCodec, Snapshot, Folders] | None:
        """Open the index in the folder of the last load or save; return None if `present` has the rows that are there.

        Unless `discard`, present rows that are not in the folder are an `InputError`.
        """
        folder = self.path
        unchanged = self.last is not None and self.last[1] is present
        if not unchanged and not discard:
            raise InputError(
                f"the index has changes that are not in {folder}: save them elsewhere, or give them up with "
                "reload(discard=True)"
            )
        codec, snapshot, loaded = self.load(folder)
        if unchanged and self.known[folder] == loaded.known[folder]:
            return None
        return codec, snapshot, loaded
