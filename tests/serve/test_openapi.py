"""openapi.json describes what the service does."""

import re

import pytest
from jsonschema import Draft202012Validator
from starlette.testclient import TestClient

from supquant.demo.collection import save_digits
from supquant.serve.app import OPERATIONS, make_app
from supquant.serve.service import Service


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo") / "digits"
    save_digits(folder)
    with TestClient(make_app(Service({"digits": folder})), base_url="http://localhost") as client:
        yield client


@pytest.fixture(scope="module")
def described(digits):
    return digits.get("/openapi.json").json()


def test_every_route_is_described_and_every_description_has_a_route(digits, described):
    routes = {(route.path, method) for route in digits.app.routes for method in route.methods - {"HEAD"}}
    paths = {(path, method.upper()) for path, methods in described["paths"].items() for method in methods}
    assert routes == paths
    names = [each["operationId"] for methods in described["paths"].values() for each in methods.values()]
    assert len(set(names)) == len(names)


def test_every_reference_resolves(described):
    for path in set(re.findall(r"'\$ref': '#/([^']+)'", str(described))):
        found = described
        for part in path.split("/"):
            found = found[part]


@pytest.mark.parametrize(
    "operation",
    [each for each in OPERATIONS if each.method == "GET" or each.example is not None],
    ids=lambda operation: operation.name,
)
def test_examples_work_and_answers_have_the_described_fields(digits, described, operation):
    path = operation.path.replace("{index}", "digits")
    says = described["paths"][operation.path][operation.method.lower()]
    if operation.method == "GET":
        answer = digits.get(path, params={"ids": "3,4"} if "ids" in (operation.parameters or {}) else None)
    else:
        body = says["requestBody"]["content"]["application/json"]
        Draft202012Validator(body["schema"]).validate(body["example"])
        answer = digits.post(path, json=body["example"])
    assert answer.status_code == 200, answer.text
    ((media_type, content),) = says["responses"]["200"]["content"].items()
    assert answer.headers["content-type"].startswith(media_type)
    if "schema" in content:
        closed = {**content["schema"], "additionalProperties": operation.name == "openapi"}
        Draft202012Validator(closed).validate(answer.json())


def test_unknown_fields_are_refused_as_described(digits):
    for operation in OPERATIONS:
        if operation.method == "POST":
            answer = digits.post(operation.path.replace("{index}", "digits"), json={"no_such": 1})
            assert answer.status_code == 422, operation.name
            assert "unknown field 'no_such'" in answer.json()["error"]
