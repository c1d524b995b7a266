"""Random lives of an index against a plain list of rows."""

import copy
import itertools
import pickle
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from supquant import AdditiveCodec, CodeIndex
from supquant.errors import InputError, SaveConflictError

ODD_INTEGERS = [-(2**63), 2**63 - 1, 2**31, -(2**32), -1]
ODD_STRINGS = ["", " ", "\0", "a\0", "a", "aa", "ä", "a\u0308", "🐦", "line\nbreak", "x" * 300]
SIZES = st.sampled_from(
    [0, 1, 8, 9, 63, 64, 65, 200, 450, 1300, 2600]
)  # small segments are merged, large ones stay
SEEDS = st.integers(0, 2**32 - 1)
SHARES = st.sampled_from([0.0, 0.01, 0.03, 0.1, 0.5, 0.97, 1.0])
DISTINCT = st.sampled_from([None, None, 1, 3, 40])


class Row(NamedTuple):
    serial: int  # tells a row from a later one under the same id
    id: int | str
    code: tuple[int, ...]


class IndexMachine(RuleBasedStateMachine):
    """One index and one list; every rule changes or asks both."""

    def __init__(self, codec, kind, draw_codes, exhaustive, both_forms):
        super().__init__()
        self.codec, self.kind, self.draw_codes, self.exhaustive = codec, kind, draw_codes, exhaustive
        self.index = CodeIndex(codec)
        self.rows = []
        self.serials = itertools.count()
        self.next_number = 0
        self.filters = []  # of this index: (Filter, serials)
        self.saves = {}  # folder: (rows, next number)
        self.known = {}  # the same, of the folders that the index was loaded from or saved to
        self.home = tempfile.TemporaryDirectory()
        if both_forms:
            self.add_codes(2600, None, 0)
            self.add_codes(1100, 3, 1)
            segments = self.index.info()["segments"]
            assert [segment["grouped"] for segment in segments] == [False, True]
            assert [segment["sorted"] for segment in segments] == [isinstance(codec, AdditiveCodec), False]

    def teardown(self):
        self.home.cleanup()

    # what the list knows ----------------------------------------------------------------------------------------------

    def codes(self, rows):
        return np.array([row.code for row in rows], dtype=np.uint8).reshape(-1, self.codec.n_codebooks)

    def append(self, ids, codes):
        for id_, code in zip(ids, codes.tolist(), strict=True):
            self.rows.append(Row(next(self.serials), id_, tuple(code)))

    def drop(self, ids):
        gone = set(ids)
        self.rows = [row for row in self.rows if row.id not in gone]

    def some(self, rng, share):
        return [row for row in self.rows if rng.random() < share]

    def fresh_ids(self, rng, n):
        """Ids for n new rows: what `add` is given, and what it must make of it."""
        if self.kind == "automatic":
            first, self.next_number = self.next_number, self.next_number + n
            return None, list(range(first, first + n))
        pool = [*ODD_INTEGERS, *rng.permutation(5 * n + 20).tolist()]
        if self.kind == "string":
            pool = [*ODD_STRINGS, *(f"photo/{number}.jpg" for number in pool)]
        live = {row.id for row in self.rows}
        ids = [id_ for id_ in pool if id_ not in live][:n]  # removed ids come again
        rng.shuffle(ids)
        return self.as_given(rng, ids), ids

    def as_given(self, rng, ids):
        """The same ids as a list, an array of objects, or where that loses nothing an array of its own dtype."""
        way = rng.integers(3)
        if way == 0:
            return list(ids)
        if way == 1:
            given = np.empty(len(ids), dtype=object)
            given[:] = ids
            return given
        if self.kind == "string":
            return list(ids) if any("\0" in id_ for id_ in ids) else np.array(ids, dtype=str)
        return np.array(ids, dtype=np.int64)

    def eligible(self, where, rng, share):
        """A `where` of some form, and the rows it must let through."""
        if where == "filter" and self.filters:
            filter_, serials = self.filters[rng.integers(len(self.filters))]
            return filter_, [row for row in self.rows if row.serial in serials]
        rows = self.some(rng, share)
        if where == "mask":
            serials = {row.serial for row in rows}
            return np.array([row.serial in serials for row in self.rows], dtype=bool), rows
        if where == "ids":
            ids = [row.id for row in rows]
            rng.shuffle(ids)
            return self.as_given(rng, ids), rows
        return None, self.rows

    def expected(self, rows, Q):
        scores, order = self.exhaustive(self.codec, self.codes(rows), Q)
        return scores, [[rows[place].id for place in line] for line in order.tolist()]

    def draw_queries(self, rng):
        return rng.integers(-2, 3, size=(rng.choice([1, 2, 9]), self.codec.n_inputs)).astype(np.float32)

    # changes ----------------------------------------------------------------------------------------------------------

    @rule(n=SIZES, distinct=DISTINCT, seed=SEEDS)
    def add_codes(self, n, distinct, seed):
        rng = np.random.default_rng(seed)
        given, ids = self.fresh_ids(rng, n)
        codes = self.draw_codes(self.codec, rng, len(ids), distinct)
        assert self.index.add_codes(codes, ids=given) is self.index
        self.append(ids, codes)

    @rule(n=st.sampled_from([1, 3, 30]), seed=SEEDS)
    def add(self, n, seed):
        rng = np.random.default_rng(seed)
        given, ids = self.fresh_ids(rng, n)
        X = rng.normal(size=(len(ids), self.codec.n_inputs)).astype(np.float32)
        assert self.index.add(X, ids=given) is self.index
        self.append(ids, self.codec.encode_items(X))

    @rule(share=SHARES, seed=SEEDS)
    def remove(self, share, seed):
        rng = np.random.default_rng(seed)
        gone = [row.id for row in self.some(rng, share)]
        rng.shuffle(gone)
        assert self.index.remove(self.as_given(rng, gone)) is self.index
        self.drop(gone)

    @rule(
        share=st.sampled_from([0.0, 0.01, 0.2, 1.0]),
        distinct=DISTINCT,
        from_vectors=st.booleans(),
        seed=SEEDS,
    )
    def update(self, share, distinct, from_vectors, seed):
        rng = np.random.default_rng(seed)
        ids = [row.id for row in self.some(rng, share)]
        rng.shuffle(ids)
        if from_vectors and len(ids) < 100:
            X = rng.normal(size=(len(ids), self.codec.n_inputs)).astype(np.float32)
            codes = self.codec.encode_items(X)
            self.index.update(self.as_given(rng, ids), X)
        else:
            codes = self.draw_codes(self.codec, rng, len(ids), distinct)
            self.index.update_codes(self.as_given(rng, ids), codes)
        new = dict(zip(ids, map(tuple, codes.tolist()), strict=True))
        self.rows = [row._replace(code=new.get(row.id, row.code)) for row in self.rows]

    @rule()
    def compact(self):
        assert self.index.compact() is self.index

    @precondition(lambda self: self.rows)
    @rule(seed=SEEDS)
    def refused_changes_change_nothing(self, seed):
        rng = np.random.default_rng(seed)
        live = [row.id for row in self.rows]
        some = live[rng.integers(len(live))]
        unknown = "nobody" if self.kind == "string" else 10**9
        other_kind = 3 if self.kind == "string" else "nobody"
        codes = self.draw_codes(self.codec, rng, 2)
        refused = [
            lambda: self.index.remove([unknown]),
            lambda: self.index.remove([some, unknown]),
            lambda: self.index.remove([some, some]),
            lambda: self.index.remove([other_kind]),
            lambda: self.index.update_codes([some, unknown], codes),
            lambda: self.index.update_codes([some, some], codes),
            lambda: self.index.update_codes([some], codes),
            lambda: self.index.codes([unknown]),
            lambda: self.index.reconstruct([some, unknown]),
            lambda: self.index.add_codes(codes, ids=[other_kind, other_kind * 2]),
            lambda: self.index.add_codes(
                codes[:, :2], ids=None if self.kind == "automatic" else [unknown] * 2
            ),
            lambda: self.index.filter(np.ones(len(live) + 1, dtype=bool)),
            lambda: self.index.search(
                np.zeros((1, self.codec.n_inputs)), where=np.zeros(len(live) + 64, dtype=bool)
            ),
        ]
        if self.kind == "automatic":
            refused += [lambda: self.index.add_codes(codes, ids=[10**9, 10**9 + 1])]
        else:
            refused += [
                lambda: self.index.add_codes(codes),
                lambda: self.index.add_codes(codes, ids=[unknown, some]),
                lambda: self.index.add_codes(codes, ids=[unknown, unknown]),
                lambda: self.index.add_codes(codes, ids=[unknown]),
            ]
        for refuse in refused:
            with pytest.raises(InputError):
                refuse()

    # questions --------------------------------------------------------------------------------------------------------

    @rule(where=st.sampled_from(["ids", "mask"]), share=SHARES, seed=SEEDS)
    def prepare_a_filter(self, where, share, seed):
        given, rows = self.eligible(where, np.random.default_rng(seed), share)
        self.filters.append((self.index.filter(given), {row.serial for row in rows}))

    @rule(
        where=st.sampled_from(["nothing", "filter", "filter", "mask", "ids"]),
        share=SHARES,
        k=st.sampled_from([1, 2, 10, 64, 100, 5000]),
        n_jobs=st.sampled_from([1, 2, None]),
        seed=SEEDS,
    )
    def search(self, where, share, k, n_jobs, seed):
        rng = np.random.default_rng(seed)
        given, rows = self.eligible(where, rng, share)
        Q = self.draw_queries(rng)
        scores, ids = self.index.search(Q, k, where=given, n_jobs=n_jobs)
        expected_scores, expected_ids = self.expected(rows, Q)
        assert scores.dtype == np.float32
        assert scores.shape == ids.shape == (len(Q), min(k, len(rows)))
        assert ids.tolist() == [line[:k] for line in expected_ids]
        assert np.array_equal(scores, expected_scores[:, :k])

    @rule(
        where=st.sampled_from(["nothing", "filter", "mask", "ids"]),
        share=SHARES,
        quantile=st.sampled_from([-1, 0, 0.02, 0.3, 1]),
        seed=SEEDS,
    )
    def range_search(self, where, share, quantile, seed):
        rng = np.random.default_rng(seed)
        given, rows = self.eligible(where, rng, share)
        Q = self.draw_queries(rng)
        expected_scores, expected_ids = self.expected(rows, Q)
        # A threshold that some rows meet exactly: they are in.
        threshold = (
            -1.0 if quantile < 0 or not rows else float(expected_scores[0, int(quantile * (len(rows) - 1))])
        )
        limits, scores, ids = self.index.range_search(Q, threshold, where=given)
        counts = (expected_scores <= threshold).sum(axis=1)
        assert limits.dtype == np.int64
        assert limits.tolist() == [0, *counts.cumsum().tolist()]
        assert ids.tolist() == [id_ for line, n in zip(expected_ids, counts, strict=True) for id_ in line[:n]]
        assert np.array_equal(scores, expected_scores[expected_scores <= threshold])

    @rule(where=st.sampled_from(["nothing", "filter", "mask"]), share=SHARES, seed=SEEDS)
    def rank(self, where, share, seed):
        rng = np.random.default_rng(seed)
        given, rows = self.eligible(where, rng, share)
        Q = self.draw_queries(rng)
        expected_scores, expected_ids = self.expected(rows, Q)
        blocks = list(self.index.rank(Q, where=given))
        assert [line for _, ids in blocks for line in ids.tolist()] == expected_ids
        assert np.array_equal(np.concatenate([scores for scores, _ in blocks]), expected_scores)

    @rule(share=SHARES, seed=SEEDS)
    def look_up(self, share, seed):
        rng = np.random.default_rng(seed)
        rows = self.some(rng, share)
        rng.shuffle(rows)
        ids = self.as_given(rng, [row.id for row in rows])
        assert np.array_equal(self.index.codes(ids), self.codes(rows))
        assert np.array_equal(self.index.reconstruct(ids), self.codec.decode(self.codes(rows)))

    # files ------------------------------------------------------------------------------------------------------------

    @rule(name=st.sampled_from(["here", "here", "there"]))
    def save(self, name):
        folder = Path(self.home.name, name)
        there = self.saves.get(folder)
        try:
            self.index.save(folder)
            assert there is self.known.get(folder) or there[0] == self.known[folder][0]
        except SaveConflictError:
            assert there is not self.known.get(folder)
            self.index.save(folder, overwrite=True)
        self.known[folder] = self.saves[folder] = (list(self.rows), self.next_number)

    @precondition(lambda self: self.saves)
    @rule(verify=st.sampled_from(["lazy", "full"]), seed=SEEDS)
    def load(self, verify, seed):
        rng = np.random.default_rng(seed)
        folder = list(self.saves)[rng.integers(len(self.saves))]
        self.index = CodeIndex.load(folder, verify=verify)
        rows, self.next_number = self.saves[folder]
        self.rows = list(rows)
        self.known = {folder: self.saves[folder]}
        for filter_, _ in self.filters:  # they belong to the index they were made for
            with pytest.raises(InputError):
                self.index.search(np.zeros((1, self.codec.n_inputs)), where=filter_)
        self.filters = []

    @rule(way=st.sampled_from([copy.copy, copy.deepcopy, lambda both: pickle.loads(pickle.dumps(both))]))
    def go_on_with_a_copy(self, way):
        before, filters = self.index, [filter_ for filter_, _ in self.filters]
        if way is copy.copy:
            self.index, filters = copy.copy(before), []
        else:
            self.index, filters = way((before, filters))
        Q = np.zeros((1, self.codec.n_inputs))
        for filter_, _ in self.filters:  # they belong to the original
            with pytest.raises(InputError):
                self.index.search(Q, where=filter_)
        self.filters = [(new, serials) for new, (_, serials) in zip(filters, self.filters, strict=False)]
        assert self.index.state == before.state
        if self.rows:  # what happens to the original does not concern the copy
            before.remove([row.id for row in self.rows[::2]])
            assert self.index.state != before.state

    @invariant()
    def same_rows(self):
        assert len(self.index) == len(self.rows)
        assert list(self.index.ids) == [row.id for row in self.rows]

    @invariant()
    def prepared_filters_stay_valid(self):
        Q = np.ones((1, self.codec.n_inputs), dtype=np.float32)
        for filter_, serials in self.filters[-2:]:
            rows = [row for row in self.rows if row.serial in serials]
            scores, ids = self.index.search(Q, 9, where=filter_)
            expected_scores, expected_ids = self.expected(rows, Q)
            assert ids.tolist() == [line[:9] for line in expected_ids]
            assert np.array_equal(scores, expected_scores[:, :9])

    @invariant()
    def info_agrees(self):
        info = self.index.info()
        assert (
            info["rows"] == sum(part["rows"] - part["removed"] for part in info["segments"]) == len(self.rows)
        )
        assert info["removed"] == sum(part["removed"] for part in info["segments"])


@pytest.mark.parametrize(
    ("codec_name", "kind", "both_forms"),
    [
        ("tied_codec", "automatic", False),
        ("tied_codec", "int", True),
        ("tied_codec", "string", True),
        ("real_codec", "automatic", True),
        ("real_codec", "int", False),
        ("binary_codec", "automatic", True),
        ("binary_codec", "string", False),
    ],
)
@pytest.mark.usefixtures("sort_early")
def test_an_index_answers_as_a_plain_list_does(request, codec_name, kind, both_forms, draw_codes, exhaustive):
    codec = request.getfixturevalue(codec_name)
    run_state_machine_as_test(
        lambda: IndexMachine(codec, kind, draw_codes, exhaustive, both_forms),
        settings=settings(
            max_examples=8,
            stateful_step_count=40,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],  # making a failure smaller takes minutes: for that, add Phase.shrink
        ),
    )
