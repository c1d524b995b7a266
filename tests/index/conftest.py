"""Codecs made of random arrays, rows for them, and the answers worked out one row at a time."""

import json
import shutil
import sys
from functools import partial

import numpy as np
import pytest
from damaged_index import KINDS, attempt
from everywhere import put_somewhere

from supquant import CodeIndex
from supquant.codec.additive import AdditiveCodec
from supquant.index import ordering
from supquant_lab.hashing.binary_codec import BinaryCodec

M, K, R = 3, 16, 2

EVERYTHING = 10**9
"""A number of rows above that of every index here."""


def _read_only(array):
    array.flags.writeable = False
    return array


def sort_from(patch, n_rows):
    """Let all codes of codecs with codebooks be sorted from a number of rows on, with cells of eight codes and more."""
    patch.setattr(ordering, "MIN_SORTED", n_rows)
    patch.setattr(ordering, "MIN_IN_CELL", 8)
    patch.setattr(ordering, "MAX_NEEDED", 2)


@pytest.fixture(scope="module")
def sort_early():
    """Sort codes from 1,000 rows on."""
    with pytest.MonkeyPatch.context() as patch:
        sort_from(patch, 1000)
        yield


@pytest.fixture(scope="session")
def tied_codec():
    """A codec of three codebooks whose codewords are tiny whole numbers: sums are exact and most of them equal."""
    codebooks = np.random.default_rng(1).integers(-1, 2, size=(M, K, R)).astype(np.float32)
    return AdditiveCodec(codebooks=_read_only(codebooks), constant=0.25)


@pytest.fixture(scope="session")
def real_codec():
    """A codec of three codebooks of real numbers: sums are rounded, and only equal codes tie."""
    codebooks = np.random.default_rng(2).normal(size=(M, K, R)).astype(np.float32)
    return AdditiveCodec(codebooks=_read_only(codebooks), constant=0.1)


@pytest.fixture(scope="session")
def binary_codec():
    """A codec of 24 bits, in three bytes."""
    rng = np.random.default_rng(3)
    projection = rng.normal(size=(R, 8 * M)).astype(np.float32)
    thresholds = rng.normal(scale=0.5, size=8 * M).astype(np.float32)
    return BinaryCodec(_read_only(projection), _read_only(thresholds))


@pytest.fixture(scope="session")
def queries():
    """Five queries of whole numbers, (5, 2) float32."""
    return _read_only(np.random.default_rng(4).integers(-2, 3, size=(5, R)).astype(np.float32))


@pytest.fixture(scope="session")
def draw_codes():
    """Return a function that draws codes (n, M): any codewords, or rows of a pool of `distinct` codes."""

    def draw(codec, rng, n, distinct=None):
        if distinct is None:
            return rng.integers(0, codec.n_codewords, size=(n, codec.n_codebooks), dtype=np.uint8)
        # The pool is the same whatever the generator, so that codes repeat from one call to the next.
        pool = np.random.default_rng(5).integers(
            0, codec.n_codewords, size=(distinct, codec.n_codebooks), dtype=np.uint8
        )
        return pool[rng.integers(0, distinct, size=n)]

    return draw


@pytest.fixture(scope="session")
def exhaustive():
    """Return a function that ranks codes (n, M) for queries: scores (q, n), positions (q, n).

    It is the definition: float32 tables added in codebook order, the smallest sum first, of equals the first inserted.
    """

    def rank(codec, codes, Q, ranking=None):
        made = codec.query_tables(Q, ranking)
        sums = made.tables[:, 0][:, codes[:, 0]]
        for m in range(1, codec.n_codebooks):
            sums = sums + made.tables[:, m][:, codes[:, m]]
        assert sums.dtype == np.float32
        order = sums.argsort(axis=1, kind="stable")
        sums = np.take_along_axis(sums, order, axis=1)
        offsets = made.offsets[:, None]
        return (offsets - sums if made.descending else offsets + sums), order

    return rank


@pytest.fixture(scope="session")
def portrait(queries):
    """Return a function that writes down all that an index answers, for comparison by ``==``."""

    def draw(index):
        ids = list(index.ids)
        limits, near, near_ids = index.range_search(queries, 3.0)
        arrays = [
            index.codes(ids),
            index.reconstruct(ids),
            *(part for block in index.rank(queries) for part in block),
            *index.search(queries, 7),
            *index.search(queries, 5, where=index.filter(ids[::2])),
            *(limits, near, near_ids),
        ]
        return (
            len(index),
            ids,
            [array.tolist() if array.dtype == object else (array.shape, array.tobytes()) for array in arrays],
        )

    return draw


@pytest.fixture(scope="session")
def contents():
    """Return a function that reads a folder: bytes by file name. A manifest is read without who saved it and when."""

    def read(folder):
        found = {file.name: file.read_bytes() for file in sorted(folder.iterdir())}
        if "manifest.json" in found:
            manifest = json.loads(found["manifest.json"])
            found["manifest.json"] = {name: manifest[name] for name in manifest.keys() - {"saved", "digest"}}
        return found

    return read


@pytest.fixture(scope="session")
def make_ids():
    """Return a function that gives the ids numbered `numbers` of a kind: "automatic" (none), "int" or "string"."""

    def make(kind, numbers):
        if kind == "automatic":
            return None
        if kind == "int":
            return [(number * 7919) % 100_003 - 50_000 for number in numbers]
        return [f"{'äpfel/' * (number % 3)}{number:x}" for number in numbers]

    return make


class History:
    """Changes of an index one after the other, and what a search finds after each. No two of these answers are equal."""

    def __init__(self, codec, Q, n_changes, *, draw_codes, exhaustive):
        rng = np.random.default_rng(7)
        self.codec, self.Q = codec, Q
        rows = {}  # id -> code, in order of insertion
        self.changes, self.states, self.ids = [], {}, {}
        for step in range(n_changes):
            live = list(rows)
            if step % 3 == 0:  # few distinct codes in some batches, so that both forms of a segment occur
                ids = list(range(1000 * step, 1000 * step + 40))
                codes = draw_codes(codec, rng, 40, None if step % 2 else 3)
                self.changes.append(("add_codes", codes, ids))
            elif step % 3 == 1:
                ids = live[3 : len(live) : 11]
                codes = draw_codes(codec, rng, len(ids))
                self.changes.append(("update_codes", ids, codes))
            else:
                gone = live[5 : len(live) : 7]
                self.changes.append(("remove", gone))
                ids, codes = [], np.empty((0, codec.n_codebooks), np.uint8)
                rows = {id_: rows[id_] for id_ in live if id_ not in set(gone)}
            rows |= dict(zip(ids, codes, strict=True))  # an updated row keeps its place
            scores, order = exhaustive(codec, np.array(list(rows.values())), Q)
            self.states[self.key(scores, np.array(list(rows))[order])] = step
            self.ids.setdefault(tuple(rows), step)  # an update leaves them as they are
        assert len(self.states) == n_changes

    @staticmethod
    def key(scores, ids):
        return scores.tobytes(), tuple(map(tuple, ids.tolist()))

    def apply(self, index, change):
        name, *arguments = change
        getattr(index, name)(*arguments)

    def state_of(self, index):
        """The number of the last change this index knows of, by what it finds; None is no state at all."""
        return self.states.get(self.key(*index.search(self.Q, EVERYTHING, n_jobs=1)))


@pytest.fixture(scope="session")
def make_history(draw_codes, exhaustive):
    """Return a function that makes a `History` of a codec, queries and a number of changes."""
    return partial(History, draw_codes=draw_codes, exhaustive=exhaustive)


@pytest.fixture
def index(request, tied_codec):
    """An index without rows; with `everywhere`, also behind a client and in shards."""
    return put_somewhere(request, CodeIndex(tied_codec))


@pytest.fixture
def codes(tied_codec, draw_codes):
    """A hundred codes (100, 3)."""
    return draw_codes(tied_codec, np.random.default_rng(11), 100)


@pytest.fixture
def restless_threads():
    """Let threads take turns so often that one of them is met in the middle of anything it does."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@pytest.fixture(scope="module")
def folders(tmp_path_factory, tied_codec, binary_codec, draw_codes, make_ids):
    """Return two saved indexes of the same shape and other content of every kind: folders by (kind, number).

    Of the kind "sorted" are those of sorted codes.
    """
    home = tmp_path_factory.mktemp("fuzz")
    saved = {}
    for kind in (*KINDS, "sorted"):
        codec = binary_codec if kind == "binary" else tied_codec
        ids = {"grouped": "int", "strings": "string"}.get(kind, "automatic")
        for number in (0, 1):
            rng = np.random.default_rng(number)
            index = CodeIndex(codec)
            for start, stop, distinct in ((0, 150, None), (150, 170, 2 if kind == "grouped" else None)):
                codes = draw_codes(codec, rng, stop - start, 3 if kind == "grouped" else distinct)
                with pytest.MonkeyPatch.context() as patch:
                    if kind == "sorted":
                        sort_from(patch, 100)
                    index.add_codes(
                        codes, ids=make_ids(ids, range(1000 * number + start, 1000 * number + stop))
                    )
            index.remove(index.ids[number::7])
            assert index.info()["segments"][0]["sorted"] == (kind == "sorted")
            saved[kind, number] = home / f"{kind}-{number}"
            index.save(saved[kind, number])
    return saved


@pytest.fixture
def copy(folders, tmp_path):
    """Return a function that copies a saved index, over the last copy."""

    def make(kind, number=0):
        target = tmp_path / "copy"
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(folders[kind, number], target)
        return target

    return make


@pytest.fixture
def check(portrait):
    """Return a function that loads a damaged folder both ways and demands the right answer or one error."""

    def check_folder(folder, altered, right):
        """Errors must name the file `altered`; gives the number of refusals, of two."""
        refused = 0
        for verify in ("full", "lazy"):
            index, refusal = attempt(CodeIndex.load, folder, verify=verify)
            if index is not None:
                answer, refusal = attempt(portrait, index)
                if refusal is None:
                    assert answer == right, f"a wrong answer from an altered {altered}, verify={verify!r}"
                else:
                    assert verify == "lazy", f"loaded as whole, and then: {refusal}"
                    assert attempt(portrait, index)[1] is not None, "refused once, accepted later"
            if refusal is not None:
                assert altered in refusal, f"{refusal!r} does not name {altered}"
                refused += 1
        return refused

    return check_folder
