"""A save that is interrupted anywhere leaves no open file, no lock, and a whole index."""

import contextlib
import os
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import supquant
from supquant import CodeIndex

SOURCES = (str(Path(supquant.__file__).parent / "storage"), str(Path(supquant.__file__).parent / "index"))


def open_descriptors(folder):
    """Return the files in a folder, and the folder itself, that this process has open."""
    found = []
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the descriptor that lists the others is closed by now
            found.append(str(link.readlink()))
    return [each for each in found if each.startswith(str(folder))]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_ctrl_c_anywhere_in_a_save_leaves_no_descriptor_no_lock_and_a_whole_index(
    tied_codec, draw_codes, tmp_path, monkeypatch
):
    """Python looks for signals when a function begins and after each call. One save is interrupted at each of these moments."""
    monkeypatch.setattr(os, "fsync", lambda _: None)  # there are many saves
    rng = np.random.default_rng(8)
    index = CodeIndex(tied_codec).add_codes(draw_codes(tied_codec, rng, 40))
    folder = tmp_path / "index"
    index.save(folder)

    def interrupted_at(moment):
        """Save. Return whether the save was interrupted at the moment with this number."""
        seen = 0

        def interrupt(frame, event, _argument):
            nonlocal seen
            if event in {"call", "c_return"} and frame.f_code.co_filename.startswith(SOURCES):
                seen += 1
                if seen == moment:
                    raise KeyboardInterrupt

        index.add_codes(draw_codes(tied_codec, rng, 1))
        before = sys.getprofile()
        sys.setprofile(interrupt)
        try:
            index.save(folder)
        except KeyboardInterrupt:
            return True
        finally:
            sys.setprofile(before)
        return False

    moment = 1
    while interrupted_at(moment):
        assert not open_descriptors(folder), f"a file stays open after Ctrl-C at moment {moment}"
        moment += 1
    assert moment > 100
    finished = []
    thread = threading.Thread(target=lambda: finished.append(index.save(folder)), daemon=True)
    thread.start()
    thread.join(20)
    assert finished == [None], "the folder is still locked"
    assert len(CodeIndex.load(folder, verify="full")) == len(index)
    assert not list(folder.glob(".*"))
