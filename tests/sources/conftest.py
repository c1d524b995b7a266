import pytest
from products import Products, make_products


@pytest.fixture(scope="session")
def products() -> Products:
    """Sixty products."""
    return make_products()
