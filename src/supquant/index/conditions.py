"""Searches among some of the rows: conditions in the SQL of DuckDB, evaluated in a database that can do nothing else."""

from __future__ import annotations

import atexit
import json
import re
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from supquant.errors import InputError
from supquant.lazy import import_whole
from supquant.system import at_fork

__all__ = ["limit_time", "parse_condition", "rows_of_condition"]

_SETTINGS = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "enable_external_access": "false",
    "lock_configuration": "true",
    "max_temp_directory_size": "0B",
    "memory_limit": "1GB",
    "python_enable_replacements": "false",
    "threads": "1",
}
"""The settings of the database. A condition can read nothing but the table: no files, and no variables of Python."""

_AGAIN_SECONDS = 0.02
"""The time between two interrupts of the same condition, in seconds. DuckDB forgets one that comes before its work begins."""

_PIECE_BYTES = 1 << 18
"""The maximum size of the rows that DuckDB works through before it looks whether it is interrupted, in bytes."""

_MAX_EXIT_SECONDS = 2.0
"""The maximum time that the end of the interpreter waits for conditions in other threads, in seconds."""

_MAX_FORK_SECONDS = 5.0
"""The maximum time that a fork waits for conditions in other threads, in seconds."""

_own = threading.local()
"""`until` is the time when the conditions of this thread are interrupted, by the monotonic clock."""


@contextmanager
def limit_time(seconds: float) -> Iterator[None]:
    """Interrupt the conditions that this thread evaluates in the block when the time is over. They raise a `TimeoutError`.

    Examples
    --------
    >>> with limit_time(1.0):
    ...     pass
    """
    before = getattr(_own, "until", None)
    _own.until = time.monotonic() + seconds
    try:
        yield
    finally:
        _own.until = before


def rows_of_condition(table: Any, where: str, column: str, known: Iterable[str] = ()) -> Any:
    """Return one column of the rows of a table for which a condition is true, a `pyarrow.Table` in any order.

    An error names the `known` columns if the condition names another one.

    Raises
    ------
    InputError
        If the condition cannot be evaluated.
    TimeoutError
        If `limit_time` ends it.
    """
    _check_not_empty(where)
    if getattr(_own, "until", None) is not None:
        table = _in_pieces(table)
    found, failure = None, ""
    with _connections.one() as connection, _interrupted_late(connection):
        try:
            found = connection.from_arrow(table).filter(where).project(column).to_arrow_table()
        except _duckdb().InterruptException:
            pass
        except _duckdb().Error as error:  # it holds objects of DuckDB, which must not leave this block
            failure = str(error)
    if failure:
        failure = failure.partition("\n")[0]  # further lines show the query around the condition
        unknown = re.search(r'Referenced column "(.*?)" not found', failure)
        if unknown is not None:
            failure = f"there is no column {unknown[1]!r}, only {', '.join(known) or 'none'}"
        raise InputError(f"the condition {where!r} cannot be evaluated: {failure}")
    if found is None:
        raise TimeoutError
    return found


def _in_pieces(table: Any) -> Any:
    """Return a table whose rows lie in small pieces. DuckDB takes each by itself, however long its values are."""
    waiting, pieces = table.to_batches()[::-1], []
    while waiting:
        piece = waiting.pop()
        half = piece.num_rows // 2
        if half and piece.nbytes > _PIECE_BYTES:
            waiting += [piece.slice(half), piece.slice(0, half)]
        else:
            pieces.append(piece)
    return type(table).from_batches(pieces, table.schema)


def parse_condition(where: str) -> Any:
    """Return the expression of a condition as DuckDB parses it: nested dicts, of which each expression has a ``class``.

    Raises
    ------
    InputError
        If the text is not one expression.

    Examples
    --------
    >>> parse_condition("price < 10")["class"]
    'COMPARISON'
    """
    _check_not_empty(where)
    empty, found = _parse("true"), _parse(where)
    expression = found.pop("where_clause", None)
    del empty["where_clause"]
    if found != empty:  # there is more than the condition, such as LIMIT 1
        raise InputError(f"expected one condition on columns, such as 'price < 10', got {where[:200]!r}")
    return expression


def _check_not_empty(where: str) -> None:
    if not where.strip():
        raise InputError("the condition is empty: write one such as 'price < 10'")


def _parse(where: str) -> dict[str, Any]:
    with _connections.one() as connection:
        statement = f"SELECT 1 WHERE {where}"
        ((text,),) = connection.execute("SELECT json_serialize_sql(?)", [statement]).fetchall()
    try:
        parsed = json.loads(text)
    except RecursionError:
        raise InputError(
            f"the condition {where[:200]!r} cannot be evaluated: it is nested too deeply"
        ) from None
    if parsed["error"] or len(parsed["statements"]) != 1:
        said = parsed.get("error_message", "expected one expression")
        raise InputError(f"the condition {where[:200]!r} cannot be evaluated: {said}")
    return dict(parsed["statements"][0]["node"])


@contextmanager
def _interrupted_late(connection: Any) -> Iterator[None]:
    """Interrupt a connection when the time of this thread is over."""
    until = getattr(_own, "until", None)
    if until is None:
        yield
        return
    if until <= time.monotonic():
        raise TimeoutError
    done = threading.Event()

    def watch() -> None:
        if not done.wait(until - time.monotonic()):
            while not done.wait(_AGAIN_SECONDS):
                connection.interrupt()

    watching = threading.Thread(target=watch, name="condition", daemon=True)
    watching.start()
    try:
        yield
    finally:
        done.set()
        watching.join()


class _Connections:
    """Connections to the empty DuckDB database of this process. To make one takes longer than to answer a condition.

    They are kept for the next condition, as a destructor would run at any time, also while the interpreter ends.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()  # guards all that follows
        self._idle: list[Any] = []
        self._running: set[Any] = set()
        self._ended = False

    @cached_property
    def _database(self) -> Any:
        duckdb = _duckdb()
        atexit.unregister(_end)
        atexit.register(_end)  # it comes before what DuckDB does at the end, which would be an error here
        return duckdb.connect(config=_SETTINGS)

    @contextmanager
    def one(self) -> Iterator[Any]:
        """Yield a connection that no other thread uses."""
        with self._changed:
            self._stop_at_end()
            connection = self._idle.pop() if self._idle else self._database.cursor()
            self._running.add(connection)
        try:
            yield connection
        finally:
            with self._changed:
                self._running.discard(connection)
                self._idle.append(connection)
                self._changed.notify_all()
                self._stop_at_end()

    def _stop_at_end(self) -> None:
        """Stop what a thread does while the interpreter ends. A daemon thread stops without a word, as it does elsewhere."""
        while self._ended and threading.current_thread().daemon:
            self._changed.wait()
        if self._ended:
            raise InputError("the interpreter is ending: a condition can no longer be evaluated")

    def before_fork(self) -> None:
        """Wait until no thread is inside DuckDB, and let none in: a child would wait forever for locks that it holds."""
        self._changed.acquire()
        self._changed.wait_for(lambda: not self._running, _MAX_FORK_SECONDS)

    def after_fork(self) -> None:
        """Let threads in again."""
        self._changed.release()

    def end(self) -> None:
        """Let no thread be inside DuckDB when the interpreter ends: it could not come back, and would abort the process."""
        end = time.monotonic() + _MAX_EXIT_SECONDS
        with self._changed:
            self._ended = True
            while self._running and time.monotonic() < end:
                for connection in self._running:
                    connection.interrupt()
                self._changed.wait(_AGAIN_SECONDS)


_connections = _Connections()
_of_parents: list[_Connections] = []
"""Those of the processes that this one was forked from. Other threads may have been at work in them, so they are left alone."""


def _end() -> None:
    _connections.end()  # of this process, which may be a child


def _before_fork() -> None:
    _connections.before_fork()


def _after_fork() -> None:
    _connections.after_fork()


def _begin_child() -> None:
    global _connections  # noqa: PLW0603  # a child begins anew
    _of_parents.append(_connections)
    _connections = _Connections()


at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_begin_child)


def _duckdb() -> Any:
    try:
        return import_whole("duckdb")
    except ModuleNotFoundError:
        raise InputError(
            "pip install 'supquant[sql]' brings duckdb, which reads conditions such as 'price < 10'"
        ) from None
