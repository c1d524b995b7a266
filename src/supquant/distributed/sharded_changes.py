"""A change of an index to changes of its shards, all at once. A worker that is lost meanwhile is asked again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from supquant.arrays import Array
from supquant.codec.interface import AnyCodec
from supquant.distributed.pool import Failure
from supquant.distributed.shard import change_shard, describe_shard, which_taken
from supquant.distributed.shards import Shards
from supquant.errors import InputError, WorkerError
from supquant.index.ids import name_some

__all__ = ["change_shards", "check_addable"]


def check_addable(shards: Shards, given: Array | None) -> None:
    """Check that rows with these ids can be added, as `CodeIndex.add` does."""
    there = [None] * len(shards.folders) if given is None else [own for _, own in shards.each(given)]
    taken = shards.ask_all(which_taken, list(zip(shards.folders, there, strict=True)))
    if given is not None and (found := np.any(taken, axis=0)).any():
        raise InputError(f"these ids are in the index already: {name_some(given[found])}")


def change_shards(
    shards: Shards,
    method: str,
    changes: Mapping[int, dict[str, Any]],
    added: Mapping[int, int],
    codec: AnyCodec | None = None,
) -> None:
    """Change shards, all at once, and note what is then known of them. If a worker was lost, its folder shows what was done.

    Parameters
    ----------
    shards : Shards
    method : str
        The name of a method of `CodeIndex`.
    changes : mapping of int to dict
        The arguments of the method for each shard.
    added : mapping of int to int
        By how many rows each shard grows; shards that do not grow may be left out.
    codec : AnyCodec or None, default=None
        The codec that all shards get. None leaves theirs.
    """
    if codec is None:
        _change_at_once(shards, method, dict(changes), added, None)
        return
    try:  # whoever is first to extend the first shard wins, so no two shards know different classes
        numbers = range(len(shards.folders))
        for some in (numbers[:1], numbers[1:]):
            _change_at_once(shards, method, {each: changes.get(each) for each in some}, added, codec)
    finally:
        if shards.facts[0].codec == codec.pack().digest:
            shards.codec = codec


def _change_at_once(
    shards: Shards,
    method: str,
    left: dict[int, dict[str, Any] | None],
    added: Mapping[int, int],
    codec: AnyCodec | None,
) -> None:
    """Change some shards, as `change_shards` does; a shard without arguments only gets the codec."""
    before = [facts.n_rows for facts in shards.facts]
    digest = None if codec is None else codec.pack().digest
    errors: list[BaseException] = []
    for _ in range(2):
        items = {number: (shards.folders[number], arguments) for number, arguments in left.items()}
        answers = shards.ask(change_shard, items, (method, codec), catch=True, restarts=0)
        for number, answer in answers.items():
            more = added.get(number, 0)
            if not isinstance(answer, Failure):
                shards.facts[number] = answer
                del left[number]
            elif not isinstance(answer.error, WorkerError):
                errors.append(answer.error)
                del left[number]
            else:
                shards.facts[number] = shards.ask(describe_shard, {number: shards.folders[number]})[number]
                grown = more and shards.facts[number].n_rows == before[number] + more
                if grown or shards.facts[number].codec == digest:
                    del left[number]
    if errors:
        raise errors[0]
    if left:
        names = ", ".join(shards.folders[number] for number in left)
        raise WorkerError(f"the workers of {names} were lost twice in {method!r}: nothing was changed there")
