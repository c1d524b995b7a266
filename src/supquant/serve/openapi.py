"""Requests to answers: what a service can do, as OpenAPI describes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import supquant
from supquant.serve.calls import JSON, OCTETS, Operation

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
    "500": "An internal error, which the log of the service has.",
    "503": "The index cannot be read at present.",
    "504": "The request took too long.",
    "507": "The folder of the index cannot be written.",
}
"""The statuses of refused requests."""


def describe(operations: Iterable[Operation]) -> dict[str, Any]:
    """Return the OpenAPI description of operations.

    Parameters
    ----------
    operations : iterable of Operation

    Returns
    -------
    dict
        The content of openapi.json.
    """
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _describe_one(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "supquant serve", "version": supquant.__version__},
        "paths": paths,
        "components": {
            "schemas": {"Error": _object({"error": {"type": "string"}})},
            "responses": {
                status: {
                    "description": text,
                    "content": {JSON: {"schema": {"$ref": "#/components/schemas/Error"}}},
                }
                for status, text in _ERRORS.items()
            },
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _describe_one(operation: Operation) -> dict[str, Any]:
    parameters = [
        {"name": name, "in": "query", "schema": schema}
        for name, schema in (operation.parameters or {}).items()
    ]
    if "{index}" in operation.path:
        parameters.append({"name": "index", "in": "path", "required": True, "schema": {"type": "string"}})
    content: dict[str, Any] = {operation.media_type: {}}
    if operation.answer is not None:
        content[operation.media_type]["schema"] = _object(operation.answer)
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": parameters,
        "responses": {
            "200": {"description": "The answer.", "content": content},
            **{status: {"$ref": f"#/components/responses/{status}"} for status in _ERRORS},
        },
        "security": [] if operation.access == "open" else [{"token": [operation.access]}],
    }
    if operation.body is not None:
        bodies: dict[str, Any] = {
            JSON: {"schema": {**_object(operation.body), "additionalProperties": False}}
        }
        if operation.example is not None:
            bodies[JSON]["example"] = operation.example
        if operation.octets is not None:
            bodies[OCTETS] = {"schema": {"type": "string", "description": operation.octets}}
        if operation.picture is not None:
            bodies["image/*"] = {"schema": {"type": "string", "description": operation.picture}}
        described["requestBody"] = {"required": True, "content": bodies}
    return described


def _object(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": dict(fields)}
