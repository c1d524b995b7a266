"""Requests to answers: JSON schemas of the fields of bodies and answers, for openapi.json."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

ID: Schema = {
    "description": "A whole number of 64 bits or a string, as the index has it.",
    "type": ["integer", "string"],
}
IDS: Schema = {"type": "array", "items": ID}
NESTED_IDS: Schema = {"description": "Ids; for each query a list if there are several.", "type": "array"}
INTEGER: Schema = {"type": "integer"}
INTEGERS: Schema = {"type": "array", "items": INTEGER}
NUMBER: Schema = {"type": "number"}
NUMBERS: Schema = {"type": "array", "items": NUMBER}
NESTED_NUMBERS: Schema = {
    "description": "Numbers; for each query a list if there are several.",
    "type": "array",
}
TEXT: Schema = {"type": "string"}
NAMES: Schema = {"type": "array", "items": TEXT}
FLAG: Schema = {"type": "boolean"}
OBJECT: Schema = {"type": "object"}
VECTOR: Schema = {"description": "One vector.", "type": "array", "items": NUMBER}
VECTORS: Schema = {
    "description": "Lists of numbers, or the base64 of rows of little-endian float32.",
    "oneOf": [{"type": "array", "items": VECTOR}, TEXT],
}
CODES: Schema = {
    "description": "Lists of whole numbers from 0 to 255, or the base64 of the bytes of codes.",
    "oneOf": [{"type": "array", "items": INTEGERS}, TEXT],
}
TABLES: Schema = {
    "description": "Look-up tables (q, M, K) as lists, or the base64 of little-endian float32.",
    "type": ["array", "string"],
}
WHERE: Schema = {
    "description": "Only these rows: a condition on columns in the SQL of DuckDB, ids, or a mask in the order of the ids.",
    "oneOf": [
        TEXT,
        {
            "type": "object",
            "properties": {
                "ids": IDS,
                "skip_missing": {"description": "Ids that are not there are left out.", **FLAG},
            },
            "required": ["ids"],
        },
        {"type": "object", "properties": {"mask": {"type": "array", "items": FLAG}}, "required": ["mask"]},
    ],
}
METADATA: Schema = {
    "description": "Columns by name, each a list of values; or the base64 of an Arrow stream.",
    "type": ["object", "string"],
}
LABELS: Schema = {
    "description": "The label of each row, or a list of labels if rows may have several; null if it is unknown.",
    "type": "array",
}

QUERY: dict[str, Schema] = {
    "query": {"description": "One vector, or the id of an item.", "oneOf": [VECTOR, INTEGER, TEXT]},
    "text": {"description": "A text, if the index has an encoder for texts.", **TEXT},
    "picture": {
        "description": "The base64 of a picture's file, if the index has an encoder for pictures.",
        **TEXT,
    },
}
SEARCH: dict[str, Schema] = {
    "k": {"description": "The number of answers to a query.", "type": "integer", "default": 10, "minimum": 1},
    "ranking": {
        "description": "One of the rankings of the index; the first one by default.",
        "type": "string",
    },
    "novelty": {
        "description": "The probability that a query is of no known class, or one for each query.",
        "type": ["number", "array"],
    },
    "where": WHERE,
    "state": {"description": "The state of the index that a mask was made for.", "type": "string"},
    "threshold": {"description": "Answers that are worse are left out.", "type": "number"},
    "columns": {"description": "Columns of the answers to return.", **NAMES},
}
FOUND: dict[str, Schema] = {
    "ids": NESTED_IDS,
    "scores": NESTED_NUMBERS,
    "columns": {"description": "The values of each column, in the form of the ids.", "type": "object"},
}
INFO: dict[str, Schema] = {
    "name": TEXT,
    "rows": INTEGER,
    "removed": INTEGER,
    "bits": INTEGER,
    "bytes_per_code": INTEGER,
    "inputs": {"description": "The width of vectors.", "type": "integer"},
    "codewords": INTEGER,
    "rankings": NAMES,
    "descending": {"description": "Whether greater scores are better, by ranking.", "type": "object"},
    "columns": {"description": "The type of each column.", "type": "object"},
    "labels": {
        "description": "The labels that the model knows; null if it knows none.",
        "type": ["array", "null"],
    },
    "multilabel": FLAG,
    "accepts": {"description": "What a query may be: vector, item, text, picture.", **NAMES},
    "id_kind": {"type": ["string", "null"]},
    "state": TEXT,
    "limits": {"description": "The limits of the service.", "type": "object"},
    "bytes": OBJECT,
    "instruction_set": TEXT,
    "segments": {"type": "array", "items": OBJECT},
}
CHANGED: dict[str, Schema] = {
    "rows": {"description": "The rows of the index after the change.", "type": "integer"}
}
