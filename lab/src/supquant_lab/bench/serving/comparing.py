"""Report: what is wrong with the answers of a service, or differs from those of one that reads by uvicorn's own protocol."""

from __future__ import annotations

import re

from supquant_lab.bench.serving.exchange import Answer, Connection
from supquant_lab.bench.serving.pipelines import Plan

SECRET = "never-to-be-seen"
"""A value in an index that no request may read."""

_REFUSED = {400, 401, 403, 404, 405, 409, 413, 414, 415, 422, 429, 431}
"""Statuses of requests that the service refuses."""

_TEXT = (b"content-type", b"text/plain; charset=utf-8")
"""The header with which uvicorn refuses what is no request. It may do so before it has answered what came earlier."""

_VARYING = re.compile(rb"/(metrics|map|audit|found|sample)\b")
"""Addresses whose answers differ from call to call. Their statuses are compared, unless one of the answers is `_UNREADY`."""

_UNREADY = b'"ready":false'
"""In the answer of a service that has not looked at all labels yet. It may later refuse what was asked."""


def difference(plan: Plan, ours: Connection, theirs: Connection) -> str | None:
    """Return what differs or is wrong, or None."""
    for answer in ours.answers:
        if (flaw := _flaw(answer)) is not None:
            return f"{flaw}: {answer}"
    mine, yours = list(ours.answers), list(theirs.answers)
    if plan.last:
        if not (ours.ended and (plan.valid or theirs.ended)):
            return f"the connection is open: ours is {'not ' * ours.ended}, theirs {'not ' * theirs.ended}"
        refusal = (
            mine.pop()
            if mine and (b"connection", b"close") in mine[-1].headers and mine[-1].status == plan.refusal
            else None
        )
        if not plan.valid and yours and _TEXT in yours[-1].headers and yours[-1].status == 400:
            yours.pop()
        count = min(len(mine), len(yours))
        # A head without a right body may have got an answer before the refusal. uvicorn may refuse before all is answered.
        if plan.at_once or count >= len(plan.messages) - plan.open:
            del mine[count:], yours[count:]
        if refusal is None and not plan.at_once and not plan.closes:
            return f"no refusal with {plan.refusal}: {ours.answers}"
    elif ours.ended != theirs.ended:
        return f"the connection is open: ours is {'not ' * ours.ended}, theirs {'not ' * theirs.ended}"
    if theirs.reset:
        # uvicorn closed before it had read all that came. The system then resets the connection, and drops its answer.
        del mine[len(yours) :]
    if len(mine) != len(yours):
        return f"{len(mine)} answers instead of {len(yours)}: {mine[len(yours) :]} {yours[len(mine) :]}"
    final = -1
    for one, other in zip(mine, yours, strict=True):
        final += one.status >= 200
        asked = plan.messages[final].url if final < len(plan.messages) else plan.last
        if not may_differ(asked, one, other) and _comparable(one) != _comparable(other):
            return f"{asked!r} was answered with {one} instead of {other}"
    return None


def may_differ(asked: bytes, one: Answer, other: Answer) -> bool:
    """Return whether the answers of two services to the same request may differ."""
    unready = _UNREADY in one.body or _UNREADY in other.body
    return _VARYING.search(asked) is not None and (one.status == other.status or unready)


def _comparable(answer: Answer) -> Answer:
    """Return an answer without the names of states and versions, which every process draws for itself."""
    body = re.sub(rb'"(state|version)":"[0-9a-f]{16}"', rb'"\1":""', answer.body)
    return Answer(answer.status, answer.headers, body)


def _flaw(answer: Answer) -> str | None:
    """Return what is wrong with an answer of the service, or None."""
    body = answer.body
    if SECRET.encode() in body:
        return "the data of another index"
    if b"Traceback" in body or b'File "' in body:
        return "a traceback"
    if answer.status >= 500:
        return "an internal error"
    if answer.status in _REFUSED:
        if b"\n" in body.strip() or len(body) > 2000:
            return "more than one line"
        if body and not body.startswith(b'{"error":"'):
            return "no error in JSON"
    elif answer.status not in (100, 200):
        return "an unexpected status"
    return None
