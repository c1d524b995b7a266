"""Codes to answers: an index and its folder, and copies of an index."""

from __future__ import annotations

import copy
import os
import threading
import weakref
from pathlib import Path
from typing import Any, Literal, Self

from supquant.errors import InputError
from supquant.index.answers import TableReader
from supquant.index.files import KnownFolders, StoredCodec, load_index, save_index
from supquant.index.snapshot import Snapshot
from supquant.inputs.parameters import check_choice

__all__ = ["SavedIndex"]


class SavedIndex(TableReader):
    """The part of `CodeIndex` that is saved, loaded, copied and pickled."""

    def _initialize(self, codec: StoredCodec, snapshot: Snapshot) -> None:
        super().__init__(codec, snapshot)
        self._write_lock = threading.Lock()
        self._mapped = True  # whether a reload maps large files
        # A reload replaces it, so a save that began before knows nothing of the reload.
        self._known_folders: KnownFolders = {}
        # The folder of the last load or save, and its rows; None instead of rows that were given up.
        self._last_saved: tuple[Path, Snapshot | None] | None = None
        _indexes.add(self)

    # copies --------------------------------------------------------------------------------------------------------------

    def __copy__(self) -> Self:
        """Return an index of the same rows. Arrays never change, so the two share them, but a later change of one is its own."""
        snapshot = self._snapshot
        return self._copied(snapshot, snapshot.detached())

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return a copy, as `copy.copy` does. Filters that are copied with it belong to the copy."""
        snapshot = self._snapshot
        return self._copied(snapshot, snapshot.detached(copy.deepcopy(snapshot.origin, memo)))

    def _copied(self, snapshot: Snapshot, detached: Snapshot) -> Self:
        index = self.__class__.__new__(self.__class__)
        state = self.__getstate__() | {"_snapshot": detached}
        if (last := self._last_saved) is not None:
            state["_last_saved"] = last[0], detached if last[1] is snapshot else None
        index.__setstate__(state)
        index._has_unlabelled = self._has_unlabelled  # both have the codec and the segments that it is about
        return index

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: all but the lock and what is computed again. A snapshot says how its rows are pickled."""
        state = self.__dict__.copy()
        del state["_write_lock"], state["_has_unlabelled"]
        state["_known_folders"] = state["_known_folders"].copy()
        if (last := state["_last_saved"]) is not None and last[1] is not state["_snapshot"]:
            state["_last_saved"] = last[0], None
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._initialize(state["_codec"], state["_snapshot"])
        self.__dict__.update(state)

    # files ---------------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the index to a folder.

        An index in the folder is replaced if this index was loaded from it or saved to it, and nobody has changed it since.
        Files that this index wrote or read there before are not written again. After any failure, the folder holds the whole old
        index or the whole new one. Other threads may search, change and save the index meanwhile: it is saved as it was when
        `save` was called.

        Parameters
        ----------
        path : str or path-like
            A new folder, an empty one, or one that holds an index.
        overwrite : bool, default=False
            Whether any other index in the folder is replaced, too.

        Raises
        ------
        SaveConflictError
            If the folder holds another index, and `overwrite` is false. The error says who saved it and when.
        InputError
            If `path` is a file, or a folder that holds something else.
        OSError
            If a file cannot be written, for example because the disk is full.
        """
        with self._write_lock:
            snapshot, known = self._snapshot, self._known_folders
        save_index(Path(path), self._codec, snapshot, known, overwrite=overwrite)
        with self._write_lock:
            if known is self._known_folders:
                self._last_saved = Path(path).resolve(), snapshot

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, verify: Literal["lazy", "full"] = "lazy", mapped: bool = True
    ) -> Self:
        """Open the index in a folder.

        Files of a MiB or more are mapped, not read. `save` never writes to a file that is in use: it makes new files, and deletes
        old ones. So any process may save to the folder, or delete it, while the index is in use. Programs that write to the
        files in place, such as ``cp new/* folder/``, are another matter. At every search, the index checks that
        no file has another size or was written to. If one was, the file is compared with its checksums again, and an error is
        raised if it differs. But a file that is cut while a search reads it ends the process. If files may be changed in place,
        load the index with ``mapped=False``.

        Parameters
        ----------
        path : str or path-like
            The folder.
        verify : {"lazy", "full"}, default="lazy"
            Whether each file is compared with its checksums at its first use, or all files at once.
        mapped : bool, default=True
            Whether large files are mapped. Otherwise all files are read into memory and compared with their checksums. Then the
            folder may be changed in any way after `load` returns.

        Returns
        -------
        CodeIndex

        Raises
        ------
        FileFormatError
            If the folder holds no index, or a file is missing, damaged or foreign. With ``"lazy"``, methods that use a damaged
            file raise it later. Methods that use a mapped file raise it if the file was changed in place.
        FileNotFoundError
            If the folder does not exist.
        """
        check_choice(verify, "verify", ("lazy", "full"))
        codec, snapshot, digest = load_index(Path(path), mapped=mapped)
        if verify == "full" or not mapped:
            snapshot.check_files()
        index = cls.__new__(cls)
        index._initialize(codec, snapshot)
        index._mapped = mapped
        index._note_loaded(Path(path).resolve(), snapshot, digest)
        return index

    def reload(self, *, discard: bool = False) -> Self:
        """Bring the index to the present state of its folder: the one that it was last loaded from or saved to.

        If the folder has not changed, nothing happens. Otherwise filters of this index become invalid. Searches that have begun
        see the old rows.

        Parameters
        ----------
        discard : bool, default=False
            Whether changes of this index since the last load or save are given up. A `compact` counts as a change.

        Returns
        -------
        self

        Raises
        ------
        InputError
            If the index has no folder, if it has changes and `discard` is false, or if the folder holds an index with another
            codec, which only `load` can open. Then the index is unchanged.
        FileFormatError, FileNotFoundError
            As in `load`.
        """
        with self._write_lock:
            if self._last_saved is None:
                raise InputError("the index was neither loaded nor saved: it has no folder to reload")
            folder, saved = self._last_saved
            if self._snapshot is not saved and not discard:
                raise InputError(
                    f"the index has changes that are not in {folder}: save them elsewhere, or give them up with "
                    "reload(discard=True)"
                )
            codec, snapshot, digest = load_index(folder, mapped=self._mapped)
            if not self._mapped:
                snapshot.check_files()
            if self._snapshot is saved and self._known_folders[folder] == frozenset({digest}):
                return self
            if codec.codec.pack().digest != self.codec.pack().digest:
                raise InputError(f"{folder} holds an index with another codec: open it with CodeIndex.load")
            self._snapshot = snapshot  # of another origin: filters of the old rows are refused
            self._known_folders = self._known_folders.copy()
            self._note_loaded(folder, snapshot, digest)
        return self

    def _note_loaded(self, folder: Path, snapshot: Snapshot, digest: str) -> None:
        self._known_folders[folder] = frozenset({digest})
        self._last_saved = folder, snapshot


_indexes: weakref.WeakSet[SavedIndex] = weakref.WeakSet()
"""All indexes of the process."""


def _renew_write_locks() -> None:
    """Renew the lock of every index in a forked child, where the thread that held it does not exist."""
    for index in _indexes:
        index._write_lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_write_locks)
