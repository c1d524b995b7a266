"""Requests to answers: which conditions on columns a client may send.

DuckDB works through 2,048 rows before it looks whether it is interrupted. So a function that a condition calls must have no
effect and take little time and memory per row: `pg_sleep` waits a second for each, and `repeat` fills the memory. What functions
return for these rows is all held at the same time, and counted to no limit of memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from supquant.errors import InputError
from supquant.index.conditions import parse_condition

__all__ = ["check_condition"]

MAX_CONDITION = 16_384
"""The maximum length of a condition in characters. The time to plan one grows with the square of its length."""

MAX_PATTERN = 256
"""The maximum length of a text that is searched for, in characters."""

MAX_PATTERNS = 1024
"""The maximum length of all regular expressions of a condition together, in characters."""

MAX_GAPS = 2
"""The maximum number of % in a pattern before something else, if it has _ or ignores case. Before DuckDB 2, the time to match
such a pattern grows with the length of the text to the power of this number."""

MAX_TEXTS = 100.0
"""The maximum number of texts, each as long as a value of a column, that a condition makes for a row. A chain such as a || b || c
makes a text of two values and one of three."""

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

_CASELESS = {"~~*", "!~~*"}
_LIKE = {"~~", "!~~"} | _CASELESS
"""`like`, `ilike` and their opposites."""

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

_MAKING = {
    *("||", "concat", "left", "lower", "ltrim", "right", "rtrim", "substr", "substring", "trim", "upper"),
    *("greatest", "least", "nullif"),
    *("array_extract", "list_extract", "list_value", "struct_extract"),
}
"""Functions that return texts or lists. Others return numbers, times or truth values."""

_PASSING = {"ARRAY_EXTRACT", "ARRAY_SLICE", "CASE_EXPR", "OPERATOR_COALESCE", "STRUCT_EXTRACT"}
"""Other expressions that do."""


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
    nodes = list(_expressions(parse_condition(where)))
    flaw = next(filter(None, map(_flaw_of, nodes)), None) or _flaw_of_all(nodes)
    if flaw is not None:
        raise InputError(f"the condition {where[:200]!r} cannot be evaluated: {flaw}")


def _flaw_of(node: dict[str, Any]) -> str | None:
    """Return what is wrong with one expression, without those in it."""
    kind = node["class"]
    if kind not in _CLASSES:
        return f"expected comparisons and functions of one row, got {kind.lower()}: give ids instead"
    if kind in ("CAST", "TYPE"):
        name = _type_of(node)
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
    if name in _LIKE and any(_n_gaps(text, name) > MAX_GAPS for each in patterns for text in _texts(each)):
        return f"a pattern with _ or without case must have at most {MAX_GAPS} % before its end: use regexp_matches"
    if name.startswith("regexp") and any("{" in text for each in patterns for text in _texts(each)):
        return "a regular expression must not have {}: write what repeats, or use * or +"
    return None


def _type_of(node: dict[str, Any]) -> str:
    """Return the name of the type of a cast. Before DuckDB 2, a cast has no expression for it."""
    return str(node.get("type_name") or (node.get("cast_type") or {"id": "int"})["id"]).lower()


def _n_gaps(pattern: str, name: str) -> int:
    """Return how often a pattern of `like` leaves open where the next letter is, if that is not found by plain search."""
    return len(re.findall("%+(?=[^%])", pattern)) if "_" in pattern or name in _CASELESS else 0


def _flaw_of_all(nodes: Sequence[dict[str, Any]]) -> str | None:
    """Return what is wrong with the expressions of a condition together. Each stands before those in it."""
    sizes: dict[int, float] = {}  # of values, in texts as long as a value of a column
    made = searched = 0.0
    for node in reversed(nodes):
        kind, name = node["class"], str(node.get("function_name")).lower()
        size = sum(sizes[id(each)] for each in _parts(node))
        if kind == "COLUMN_REF":
            size = 1.0
        elif kind == "CONSTANT":
            size = sum(map(len, _texts(node))) / MAX_PATTERN
        elif name in _MAKING or node["type"] in _PASSING or (kind == "CAST" and _makes_text(node)):
            made += size
        else:
            size = 0.0
        if name.startswith("regexp"):
            searched += sum(map(len, _texts(node)))
        sizes[id(node)] = size
    if made > MAX_TEXTS:
        return f"it makes more than {MAX_TEXTS:.0f} texts of a row: join or change fewer"
    if searched > MAX_PATTERNS:
        return f"its regular expressions must have at most {MAX_PATTERNS:,} characters together"
    return None


def _makes_text(cast: dict[str, Any]) -> bool:
    return any(
        _type_of(each) in ("text", "varchar")
        for each in (cast, *_parts(cast))
        if each["class"] in ("CAST", "TYPE")
    )


def _parts(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Return the expressions that an expression is made of, without those in them."""
    waiting = list(node.values())
    while waiting:
        found = waiting.pop()
        if isinstance(found, dict) and "class" in found:
            yield found
        elif isinstance(found, dict | list):
            waiting.extend(found.values() if isinstance(found, dict) else found)


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
