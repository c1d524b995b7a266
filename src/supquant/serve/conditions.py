"""Requests to answers: which conditions on columns a client may send.

DuckDB works through 2,048 rows before it looks whether it is interrupted. So a function that a condition calls must have no
effect and take little time and memory per row: `pg_sleep` waits a second for each, and `repeat` fills the memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from supquant.errors import InputError
from supquant.index.conditions import parse_condition

__all__ = ["check_condition"]

MAX_CONDITION = 16_384
"""The maximum length of a condition in characters. The time to plan one grows with the square of its length."""

MAX_PATTERN = 256
"""The maximum length of a text that is searched for, in characters."""

_CLASSES = {
    "BETWEEN",
    "CASE",
    "CAST",
    "COLUMN_REF",
    "COMPARISON",
    "CONJUNCTION",
    "CONSTANT",
    "FUNCTION",
    "OPERATOR",
    "TYPE",
}
"""The kinds of expressions, as DuckDB names them. There are no subqueries, windows, lambdas or stars."""

_TYPES = {
    *(
        "bigint",
        "bool",
        "boolean",
        "date",
        "decimal",
        "double",
        "float",
        "hugeint",
        "int",
        "integer",
        "interval",
        "numeric",
    ),
    *(
        "real",
        "smallint",
        "text",
        "time",
        "timestamp",
        "timestamp with time zone",
        "timestamptz",
        "tinyint",
        "ubigint",
    ),
    *("uinteger", "usmallint", "utinyint", "uuid", "varchar"),
}
"""The types that a value can be cast to. An array of a given length could be of any size."""

_MATCHING = {
    *(
        "~~",
        "!~~",
        "~~*",
        "!~~*",
        "^@",
        "contains",
        "ends_with",
        "instr",
        "position",
        "prefix",
    ),
    *("regexp_full_match", "regexp_matches", "starts_with", "strpos", "suffix"),
}
"""Functions that look for a pattern in a text. Their time grows with the product of the two lengths."""

_FUNCTIONS = _MATCHING | {
    *(
        "+",
        "-",
        "*",
        "/",
        "//",
        "%",
        "||",
        "abs",
        "ceil",
        "ceiling",
        "floor",
        "greatest",
        "isfinite",
        "isinf",
        "isnan",
    ),
    *(
        "least",
        "ln",
        "log",
        "log10",
        "log2",
        "mod",
        "nullif",
        "pow",
        "power",
        "round",
        "sign",
        "sqrt",
        "trunc",
    ),
    *(
        "concat",
        "left",
        "length",
        "len",
        "lower",
        "ltrim",
        "right",
        "rtrim",
        "strlen",
        "substr",
        "substring",
        "trim",
        "upper",
    ),
    *(
        "list_contains",
        "list_has",
        "array_contains",
        "array_has",
        "list_extract",
        "array_extract",
        "list_value",
    ),
    *("array_length", "struct_extract"),
    *(
        "date_diff",
        "date_part",
        "date_sub",
        "date_trunc",
        "datediff",
        "datepart",
        "datetrunc",
        "day",
        "dayofweek",
    ),
    *("dayofyear", "epoch", "hour", "minute", "month", "quarter", "second", "week", "weekday", "year"),
    *("to_days", "to_hours", "to_minutes", "to_months", "to_seconds", "to_weeks", "to_years"),
}
"""The functions that a condition can call. A result depends on the row alone, and is hardly longer than the arguments."""


def check_condition(where: str) -> None:
    """Raise an `InputError` unless a condition only compares and computes values of a row, in little time.

    Examples
    --------
    >>> check_condition("price < 10 and lower(colour) like 'r%'")
    >>> check_condition("pg_sleep(1) is null")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    supquant.errors.InputError: the condition 'pg_sleep(1) is null' cannot be evaluated: it calls pg_sleep, which is none of ...
    """
    if len(where) > MAX_CONDITION:
        raise InputError(
            f"a condition must have at most {MAX_CONDITION:,} characters, got {len(where):,}: give ids or a mask instead"
        )
    for node in _expressions(parse_condition(where)):
        flaw = _flaw_of(node)
        if flaw is not None:
            raise InputError(f"the condition {where[:200]!r} cannot be evaluated: {flaw}")


def _flaw_of(node: dict[str, Any]) -> str | None:
    """Return what is wrong with one expression, without those in it."""
    kind = node["class"]
    if kind not in _CLASSES:
        return f"expected comparisons and functions of one row, got {kind.lower()}: give ids instead"
    if kind in ("CAST", "TYPE"):  # before DuckDB 2, a cast has no expression for its type
        name = str(node.get("type_name") or (node.get("cast_type") or {"id": "int"})["id"]).lower()
        return None if name in _TYPES else f"it casts to {name}: cast to a number, a text, a date or a time"
    if kind != "FUNCTION":
        return None
    name = node["function_name"].lower()
    if name not in _FUNCTIONS:
        return f"it calls {name}, which is none of {', '.join(sorted(each for each in _FUNCTIONS if each.isidentifier()))}"
    if name not in _MATCHING:
        return None
    searched, *patterns = [
        each.get("expression", each) for each in node.get("arguments") or node.get("children") or [{}]
    ]
    if any(each.get("class") != "CONSTANT" for each in patterns):
        return f"{name} takes a text to look for, not an expression"
    if any(sum(map(len, _texts(each))) > MAX_PATTERN for each in (searched, *patterns)):
        return f"texts that {name} compares with a column must have at most {MAX_PATTERN} characters"
    if name.startswith("regexp") and any("{" in text for each in patterns for text in _texts(each)):
        return "a regular expression must not have {}: write what repeats, or use * or +"
    return None


def _expressions(value: Any) -> Iterator[dict[str, Any]]:
    """Return all expressions in a parsed condition, at any depth."""
    waiting = [value]
    while waiting:
        found = waiting.pop()
        if isinstance(found, dict):
            if "class" in found:
                yield found
            waiting.extend(found.values())
        elif isinstance(found, list):
            waiting.extend(found)


def _texts(value: Any) -> Iterator[str]:
    """Return all constants in an expression that are texts."""
    for node in _expressions(value):
        if node["class"] == "CONSTANT":
            held = node.get("literal") or node.get("value") or {}
            text = held.get("text", held.get("value"))
            if isinstance(text, str):
                yield text
