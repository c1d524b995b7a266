import pytest
import small_problems


@pytest.fixture(scope="session")
def draw():
    return small_problems.draw_problem


@pytest.fixture(scope="module")
def indicator(clusters):
    return small_problems.several_labels(*clusters)


@pytest.fixture(params=["one label", "several labels"])
def target(request, clusters, indicator):
    return clusters[1] if request.param == "one label" else indicator
