import pytest
from embedded import load_questions


@pytest.fixture(scope="session")
def questions():
    """Questions with vectors, as `embedded.load_questions` says."""
    return load_questions()
