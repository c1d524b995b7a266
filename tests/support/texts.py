"""Texts of any characters for property tests."""

from hypothesis import strategies as st


def texts(max_size=None):
    """Return a strategy for all texts that UTF-8 can write.

    They are those of ``st.text``, which encodes every character there is before its first example; that takes seconds.
    """
    return st.text(st.characters(exclude_categories=["Cs"]), max_size=max_size)
