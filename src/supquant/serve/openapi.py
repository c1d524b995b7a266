"""Requests to answers: what a service can do, as OpenAPI describes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import supquant
from supquant.index.change_keys import MAX_KEYS
from supquant.serve.calls import JSON, MAX_KEY, Operation
from supquant.serve.fields import FIELDS, TEXT, Schema, described

__all__ = ["describe"]

_ERRORS = {
    "400": "The body or the address cannot be read.",
    "401": "A token is needed.",
    "403": "The token does not allow this.",
    "404": "There is no such index.",
    "409": "The index has changed since its state was read.",
    "413": "The body is too long.",
    "415": "The body has another content type.",
    "422": "A field has a value that cannot be used.",
    "429": "Too many requests are waiting.",
    "500": "An internal error; the log of the service has the details.",
    "503": "The index cannot be read at present.",
    "504": "The request took too long.",
    "507": "The folder of the index cannot be written.",
}
"""The statuses of refused requests."""


def describe(operations: Iterable[Operation]) -> dict[str, Any]:
    """Return the content of openapi.json, which describes operations."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _describe_one(operation)
    error = {JSON: {"schema": {"$ref": "#/components/schemas/Error"}}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "supquant serve", "version": supquant.__version__},
        "paths": paths,
        "components": {
            "schemas": {"Error": _object({"error": TEXT})},
            "responses": {
                status: {"description": text, "content": error} for status, text in _ERRORS.items()
            },
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _describe_one(operation: Operation) -> dict[str, Any]:
    parameters: list[dict[str, Any]] = [
        {
            "name": name,
            "in": "query",
            "required": name in operation.required,
            "schema": FIELDS[name].schema,
            "explode": False,  # lists are written with commas
        }
        for name in operation.parameters
    ]
    if operation.access == "write":
        meaning = (
            f"A change that is sent again with the same key is made once. The last {MAX_KEYS:,} are known."
        )
        schema = described(meaning, {"type": "string", "minLength": 1, "maxLength": MAX_KEY})
        parameters.append({"name": "Idempotency-Key", "in": "header", "required": False, "schema": schema})
    if "{index}" in operation.path:
        parameters.append({"name": "index", "in": "path", "required": True, "schema": TEXT})
    schema = {} if operation.answer is None else {"schema": _object(operation.answer)}
    answer = {"description": "The answer.", "content": {operation.media_type: schema}}
    found: dict[str, Any] = {
        "operationId": operation.name,
        "summary": (operation.handle.__doc__ or "").partition("\n")[0],
        "parameters": parameters,
        "responses": {
            "200": answer,
            **{status: {"$ref": f"#/components/responses/{status}"} for status in _ERRORS},
        },
        "security": [] if operation.access == "open" else [{"token": [operation.access]}],
    }
    if operation.body is not None:
        fields = {name: FIELDS[name].schema for name in operation.body}
        bodies: dict[str, Any] = {
            JSON: {"schema": {**_object(fields, operation.required), "additionalProperties": False}}
        }
        if operation.example is not None:
            bodies[JSON]["example"] = operation.example
        for media_type, meaning in operation.other_bodies.items():
            bodies[media_type] = {"schema": described(meaning, TEXT)}
        found["requestBody"] = {"required": True, "content": bodies}
    return found


def _object(fields: Mapping[str, Schema], required: Sequence[str] = ()) -> Schema:
    return {
        "type": "object",
        "properties": dict(fields),
        **({"required": list(required)} if required else {}),
    }
