"""Tests of an index that a client of a service must pass as well."""

import pytest

everywhere = pytest.mark.parametrize("index", ["here", "served"], indirect=True)
"""Runs a test with an index, and with a client of a service that holds this index."""


def is_served(request):
    """Return whether the fixture `index` is to be a client."""
    return getattr(request, "param", "here") == "served"
