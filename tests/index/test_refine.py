"""Vectors next to codes: the first answers in the order of exact scores and cosines, through every change and on every way."""

import copy
import os
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from everywhere import everywhere, put_somewhere
from hypothesis import given
from hypothesis import strategies as st

from supquant import CodeIndex, InputError, ProductQuantizer, SupervisedQuantizer, kernels
from supquant.client import Client
from supquant.errors import FileFormatError
from supquant.index.vectors import Vectors, join_vectors
from supquant.inputs.labels import read_labels
from supquant.model.exact import N_LEVELS
from supquant.model.feature_map import unit_rows
from supquant.model.vectors import FeatureParts, item_vectors
from supquant.sources import open_vectors
from supquant.storage import layout, open_arrays, pack_arrays

KINDS = ("int8", "float16")

N = 400


@pytest.fixture(scope="module")
def model(digits):
    X, y = digits
    known = np.flatnonzero(y < 8)[:500]
    return SupervisedQuantizer(3, n_codewords=32, max_iter=2, random_state=0).fit(X[known], y[known])


@pytest.fixture(scope="module")
def items(digits, model):
    """Items of which a third has labels. From a code alone, some items without would look as if they had one: not these."""
    X, y = (each[550:1300] for each in digits)
    labels = np.array([None if row % 3 or label >= 8 else label for row, label in enumerate(y)], dtype=object)
    own = np.array([label is not None for label in labels])
    told = np.flatnonzero(own | ~model.codec_.are_labelled(model.encode(X)))[:N]
    assert len(told) == N
    assert 0.2 < own[told].mean() < 0.6
    return X[told], labels[told]


@pytest.fixture(scope="module")
def queries(digits):
    return digits[0][1300:1320]


@pytest.fixture
def index(request):
    """Return a function that leaves an index here, or puts it behind a client or in shards."""
    return lambda made: put_somewhere(request, made)


def exact_answers(model, X, y, Q, first, ranking="label", novelty=None, *, all_labelled=False):
    """Return the scores and rows (q, n) of rows `first` (q, n), ordered as `SearchableIndex.search` says, in plain steps."""
    codec = model.codec_
    units, asked = unit_rows(X), unit_rows(Q)
    labels = None if y is None else read_labels(y, n_rows=len(X), classes=codec.classes, missing=True)
    given = None if labels is None else codec.map.spelling.of_labels(labels, 0, len(X))
    t = item_vectors(FeatureParts.of(codec.features(np.float32(X)), codec.map), codec.map, given)
    features = codec.query_features(Q, novelty=0.0 if all_labelled and novelty is None else novelty)
    v = codec.prepare(features, ranking, all_labelled=all_labelled)
    curve_of = codec.curves_of(features, all_labelled=all_labelled)
    answers = []
    for query, rows in enumerate(first):
        cosines = units[rows] @ asked[query]
        if ranking == "position":
            order = np.argsort(-cosines, kind="stable")
            answers.append(((cosines - asked[query] @ codec.map.mean)[order], rows[order]))
            continue
        p = np.interp(t[rows] @ v[query], *codec.curves[curve_of[query]])
        levels = np.minimum((p * N_LEVELS).astype(int), N_LEVELS - 1)
        order = sorted(range(len(rows)), key=lambda i: (-levels[i], -cosines[i]))
        answers.append(([p[levels == levels[i]].mean() for i in order], rows[order]))
    scores, rows = zip(*answers, strict=True)
    return np.array(scores), np.array(rows)


def assert_nearly_ordered(found, expected, atol):
    """Assert that scores agree, and that few rows are at other places: those whose scores or cosines nearly agree."""
    assert (np.abs(found[0] - expected[0]) < atol).mean() > 0.97
    assert (found[1] == expected[1]).mean() > 0.9


@everywhere
@pytest.mark.parametrize("ranking", ["label", "position"])
@pytest.mark.parametrize("labelled", [True, False])
def test_the_first_answers_have_the_order_of_their_vectors(index, model, digits, queries, ranking, labelled):
    X, y = digits[0][:N], digits[1][:N] % 8
    y = y if labelled else None
    index = index(CodeIndex(model, vectors="float16").add(X, y))
    first = index.search(queries, 30, ranking=ranking)[1]
    found = index.search(queries, 30, ranking=ranking, refine=30)
    assert all(set(one) == set(other) for one, other in zip(found[1], first, strict=True))
    expected = exact_answers(model, X, y, queries, first, ranking, all_labelled=labelled)
    assert_nearly_ordered(found, expected, 5e-3)
    assert (np.diff(found[0], axis=1) <= 0).all()
    for mine, others in zip(index.search(queries[3], 7, ranking=ranking, refine=30), found, strict=True):
        np.testing.assert_array_equal(
            mine, others[3, :7]
        )  # alone as in a batch, and the best of the same rows


@pytest.mark.parametrize("kind", KINDS)
def test_a_search_by_position_finds_the_nearest_vectors(model, items, queries, kind):
    X, y = items
    index = CodeIndex(model, vectors=kind).add(X, y)
    cosines = unit_rows(queries) @ unit_rows(X).T
    found = index.search(queries, 10, ranking="position", refine=N)[1]
    nearest = np.argsort(-cosines, axis=1)[:, :10]
    assert np.mean([len(set(a) & set(b)) for a, b in zip(found, nearest, strict=True)]) > 9.8
    chosen = np.sort(cosines, axis=1)[:, ::-1][:, :10]
    np.testing.assert_allclose(np.take_along_axis(cosines, found, axis=1), chosen, atol=0.01)


def kept_vectors(index):
    """Return the unit vectors and codes of all rows by their ids, as the index keeps them."""
    kept = {}
    for part in index._snapshot.parts:
        coded = part.coded(part.live_rows())
        ids = part.ids.take(part.live_rows())
        units, _ = coded.vectors.decoded()
        kept |= {int(id_): (unit, code) for id_, unit, code in zip(ids, units, coded.codes, strict=True)}
    return kept


@pytest.mark.parametrize("kind", KINDS)
def test_codes_and_vectors_stay_those_of_the_same_rows(model, items, kind, tmp_path):
    X, y = items
    codec, rng = model.codec_, np.random.default_rng(0)
    index, now = CodeIndex(model, vectors=kind), {}
    for step in range(60):
        change = rng.choice(["add", "update", "upsert", "remove", "compact", "reload", "copy"])
        new = rng.integers(N, size=rng.integers(1, 20))
        if change == "add":
            ids = max(now, default=-1) + 1 + np.arange(len(new))
            index.add(X[new], y[new], ids)
        elif change == "upsert":
            ids = rng.choice(
                max(now, default=0) + 10, size=min(len(new), max(now, default=0) + 10), replace=False
            )
            new = new[: len(ids)]
            index.upsert(ids, X[new], y[new])
        elif len(now) < 30:
            continue
        elif change == "update":
            ids = rng.choice(sorted(now), size=len(new), replace=False)
            index.update(ids, X[new], y[new])
        elif change == "remove":
            gone = rng.choice(sorted(now), size=len(new), replace=False)
            index.remove(gone)
            now = {id_: row for id_, row in now.items() if id_ not in gone}
            ids = new = ()
        else:
            if change == "compact":
                index.compact()
            elif change == "copy":
                index = pickle.loads(pickle.dumps(copy.copy(index)))
            else:
                index.save(tmp_path / "index", overwrite=True)
                index = CodeIndex.load(tmp_path / "index")
            ids = new = ()
        now |= dict(zip(map(int, ids), map(int, new), strict=True))
        kept = kept_vectors(index)
        assert kept.keys() == now.keys(), (step, change)
        rows = [now[id_] for id_ in kept]
        if rows:
            np.testing.assert_array_equal(
                [code for _, code in kept.values()], codec.encode_items(X[rows], y[rows])
            )
            largest = np.abs(unit_rows(X)).max(axis=0)
            errors = np.abs(np.array([unit for unit, _ in kept.values()]) - unit_rows(X[rows]))
            assert (errors <= np.maximum(largest * 2 / 127, 2.0**-11)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_changes_lead_to_the_answers_of_an_index_made_at_once(model, items, queries, kind):
    X, y = items
    index = CodeIndex(model, vectors=kind).add(X[:100], y[:100]).add(X[100:], y[100:])
    index.update(np.arange(50, 60), X[10:20], y[10:20]).remove(np.arange(5)).upsert(
        [7, 8], X[[1, 2]], y[[1, 2]]
    )
    order = np.arange(N)
    order[50:60], order[[7, 8]] = np.arange(10, 20), [1, 2]
    order = order[5:]
    fresh = CodeIndex(model, vectors=kind).add(X[order], y[order])
    for options in ({}, {"ranking": "position"}, {"where": np.arange(N - 5) % 2 == 0}):
        found, expected = (each.search(queries, 20, refine=60, **options) for each in (index, fresh))
        if kind == "float16":
            np.testing.assert_allclose(found[0], expected[0], atol=1e-6)
        assert (found[1] == expected[1] + 5).mean() > (0.99 if kind == "float16" else 0.8)


def test_a_filter_and_more_answers_than_refined_rows(model, items, queries):
    X, y = items
    index = CodeIndex(model, vectors="int8").add(X, y)
    some = index.filter(np.arange(0, N, 4))
    found = index.search(queries, 50, where=some, refine=10)
    expected = index.search(queries, 50, where=some, refine=50)
    np.testing.assert_array_equal(found[1], expected[1])
    assert (found[1] % 4 == 0).all()
    table = index.search_table(queries, 50, where=some, refine=10)
    assert table["id"].to_pylist() == found[1].ravel().tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_a_loaded_index_answers_as_the_saved_one(model, items, queries, tmp_path, kind):
    X, y = items
    index = CodeIndex(model, vectors=kind).add(np.repeat(X, 60, axis=0), np.repeat(y, 60))
    index.update([3, 77], X[:2], y[:2]).save(tmp_path / "index")
    expected = index.search(queries, 20, refine=100)
    for mapped in (True, False):
        loaded = CodeIndex.load(tmp_path / "index", mapped=mapped)
        assert loaded.vectors == kind
        assert loaded.info()["bytes"] == index.info()["bytes"]
        for mine, other in zip(loaded.search(queries, 20, refine=100), expected, strict=True):
            np.testing.assert_array_equal(mine, other)
    before = sorted(path.name for path in (tmp_path / "index").iterdir())
    loaded.save(tmp_path / "index", overwrite=True)
    assert sorted(path.name for path in (tmp_path / "index").iterdir()) == before


def test_an_index_without_vectors_is_saved_as_before(model, items, tmp_path):
    CodeIndex(model).add(*items).save(tmp_path / "index")
    assert "vectors" not in (tmp_path / "index" / "manifest.json").read_text()


def test_files_of_vectors_that_were_altered_are_refused(model, items, queries, tmp_path):
    X, y = items
    CodeIndex(model, vectors="int8").add(np.repeat(X, 30, axis=0), np.repeat(y, 30)).save(tmp_path / "index")
    path = next((tmp_path / "index").glob("vectors-*"))
    content = bytearray(path.read_bytes())
    content[-100] ^= 1
    path.write_bytes(content)
    index = CodeIndex.load(tmp_path / "index")
    index.search(queries, 5)  # vectors are not needed
    with pytest.raises(FileFormatError, match="altered"):
        index.search(queries, 5, refine=20)
    with pytest.raises(FileFormatError, match="altered"):
        CodeIndex.load(tmp_path / "index", verify="full")
    path.unlink()
    with pytest.raises(FileFormatError, match="not there"):
        CodeIndex.load(tmp_path / "index")


@pytest.mark.parametrize("labelled", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_a_first_search_reads_little_of_the_vectors_and_finds_damage_there(
    model, items, queries, tmp_path, monkeypatch, kind, labelled
):
    X, y = np.repeat(items[0], 60, axis=0), np.repeat(items[1], 60)
    X = X + np.random.default_rng(0).uniform(0, 0.3, X.shape).astype(np.float32)
    y = np.zeros(len(X), dtype=int) if labelled else None
    CodeIndex(model, vectors=kind).add(X, y).save(tmp_path / "index")
    path = next((tmp_path / "index").glob("vectors-*"))
    sound, read, digest = path.read_bytes(), [], layout.chunk_digest
    monkeypatch.setattr(layout, "chunk_digest", lambda chunk: read.append(len(chunk)) or digest(chunk))

    def fresh():
        index = CodeIndex.load(tmp_path / "index")
        index.search(queries[0], 5)
        read.clear()
        return index

    index = fresh()
    expected = index.search(queries[0], 5, refine=5)
    assert 0 < sum(read) < len(sound) / 3
    vectors = index._snapshot.parts[0].segment.vectors
    assert (vectors._which is not None) == labelled
    own = {"rows": expected[1]}
    own |= {"meanings": [vectors._which[row] for row in own["rows"]] if labelled else own["rows"]}
    own |= {"which": own["rows"], "scales": [3]} if labelled else {"scales": [3]}
    inner = np.arange(
        len(X) // 10, len(X) * 9 // 10
    )  # the first and last rows share a block with other arrays
    elsewhere = inner[np.abs(inner - expected[1][:, None]).min(axis=0).argmax()]
    begins = {
        name: len(sound) - vectors._file.nbytes + begin for name, begin in vectors._file._begins.items()
    }
    for name, rows in (*own.items(), ("rows", [elsewhere])):
        row_bytes = vectors._file.arrays[name][:1].nbytes
        for row in rows[:2]:
            content = bytearray(sound)
            content[begins[name] + int(row) * row_bytes + row_bytes - 1] ^= 1
            path.write_bytes(content)
            damaged = fresh()
            if row == elsewhere:
                np.testing.assert_array_equal(damaged.search(queries[0], 5, refine=5), expected)
                with pytest.raises(FileFormatError, match="altered"):
                    damaged.search(X[row], 100, ranking="position", refine=len(X))
                continue
            for _ in range(2):
                with pytest.raises(FileFormatError, match=f"{path.name}: its arrays were altered"):
                    damaged.search(queries[0], 5, refine=5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_change_of_vectors_during_a_search_is_noticed_after_it(
    model, items, queries, tmp_path, monkeypatch, kind
):
    CodeIndex(model, vectors=kind).add(np.repeat(items[0], 60, axis=0)).save(tmp_path / "index")
    path = next((tmp_path / "index").glob("vectors-*"))
    index = CodeIndex.load(tmp_path / "index")
    dots, times = kernels.active().row_dots, []

    def changed_before(*arguments):
        if not times:
            content = bytearray(path.read_bytes())
            content[len(content) // 3 :] = bytes(len(content) - len(content) // 3)
            with path.open("r+b") as file:
                file.write(content)
            os.utime(path, ns=(0, path.stat().st_mtime_ns + 10**9))
        times.append(1)
        return dots(*arguments)

    monkeypatch.setattr(kernels.active(), "row_dots", changed_before)
    with pytest.raises(FileFormatError, match="altered"):
        index.search(queries, 50, refine=100)
    assert times


def test_forged_vectors_are_refused_when_they_are_used(model, items, queries, tmp_path):
    X, y = np.repeat(items[0], 60, axis=0), np.zeros(60 * N, dtype=int)
    index = CodeIndex(model, vectors="float16").add(X, y)
    vectors = index._snapshot.parts[0].segment.vectors
    forged = {
        "which": np.full_like(vectors._which, len(vectors._meanings)),
        "rows": np.full_like(vectors._rows, np.nan),
        "meanings": np.full_like(vectors._meanings, np.inf),
        "scales": -vectors._scales,
    }
    for name, values in forged.items():
        pack_arrays("vectors", vectors._arrays() | {name: values}, {}).write(tmp_path / name)
        file = open_arrays(tmp_path / name, "vectors")
        widths = vectors._rows.shape[1], vectors._meanings.shape[1]
        index._snapshot.parts[0].segment.vectors = Vectors.from_file(file, len(X), "float16", *widths)
        with pytest.raises(FileFormatError, match=f"{tmp_path / name}: "):
            index.search(queries, 5, refine=5)


def test_vectors_of_wrong_values_are_refused():
    values = np.zeros((4, 3), dtype=np.float16)
    scales = np.ones(6, dtype=np.float32)
    which = np.array([0, 1, 2, 3], dtype=np.uint32)
    assert Vectors(values, values, scales, which)._find_flaw() is None
    assert "below 2, got 3" in Vectors(values, values[:2], scales, which)._find_flaw()
    assert "above 0" in Vectors(values, values, scales * 0)._find_flaw()
    assert "finite" in Vectors(values + np.float16(np.inf), values, scales)._find_flaw()


# sources ----------------------------------------------------------------------------------------------------------------


@everywhere
def test_vectors_are_read_from_a_source(index, model, items, queries, tmp_path):
    X, y = items
    index = index(CodeIndex(model).add(X, y))
    if isinstance(index, Client):
        with pytest.raises(InputError, match="refine must be a number"):
            index.search(queries, 5, refine=X)
        return
    expected = CodeIndex(model, vectors="float16").add(X, y).search(queries, 10, refine=100)
    np.save(tmp_path / "X.npy", X)
    table = pa.table({"id": np.arange(N)[::-1], "vector": list(X[::-1])})
    pq.write_table(table, tmp_path / "X.parquet", row_group_size=64)
    sources = (X, np.load(tmp_path / "X.npy", mmap_mode="r"), open_vectors(tmp_path / "X.parquet"), (X, 100))
    for source in sources:
        found = index.search(queries, 10, refine=source)
        assert_nearly_ordered(found, expected, 5e-3)


def test_a_source_must_have_the_items(model, items, queries):
    X, y = items
    index = CodeIndex(model).add(X, y, ids=[f"row {row}" for row in range(N)])
    with pytest.raises(InputError, match="has no ids and 400 rows"):
        index.search(queries, 5, refine=X)
    source = open_vectors(X[:5]).with_values(ids=np.array([f"row {row}" for row in range(5)], dtype=object))
    with pytest.raises(InputError, match="these ids are not in"):
        index.search(queries, 5, refine=source)
    with pytest.raises(InputError, match="of another kind"):
        index.search(queries, 5, refine=open_vectors(X).with_values(ids=np.arange(N)))


def test_rows_are_taken_from_sources(tmp_path, items):
    X, _ = items
    rows = np.array([399, 3, 3, 250, 0])
    table = pa.table({"vector": list(X)})
    pq.write_table(table, tmp_path / "X.parquet", row_group_size=50)
    for source in (open_vectors(X), open_vectors(tmp_path / "X.parquet")):
        np.testing.assert_array_equal(source.take(rows), X[rows])
        assert source.take(rows[:0]).shape == (0, X.shape[1])


# what is refused ----------------------------------------------------------------------------------------------------------


def test_refine_needs_vectors_and_a_model(model, items, queries, digits):
    X, y = items
    with pytest.raises(InputError, match="the index keeps no vectors"):
        CodeIndex(model).add(X, y).search(queries, refine=20)
    with pytest.raises(InputError, match="refine must be an integer of at least 1"):
        CodeIndex(model, vectors="int8").add(X, y).search(queries, refine=0)
    with pytest.raises(InputError, match="vectors must be"):
        CodeIndex(model, vectors="int4")
    product = ProductQuantizer(2, n_codewords=16, random_state=0).fit(digits[0][:200])
    with pytest.raises(InputError, match="need a model of SupervisedQuantizer"):
        CodeIndex(product, vectors="int8")
    with pytest.raises(InputError, match="need a model of SupervisedQuantizer"):
        CodeIndex(product).add(X).search(queries, refine=X)


def test_codes_come_with_their_vectors(model, items, queries):
    X, y = items
    codes = model.codec_.encode_items(X, y)
    index = CodeIndex(model, vectors="float16")
    with pytest.raises(InputError, match="the index keeps vectors: give those of the items"):
        index.add_codes(codes)
    with pytest.raises(InputError, match="one vector for every code"):
        index.add_codes(codes, vectors=X[:5])
    with pytest.raises(InputError, match="keeps no vectors"):
        CodeIndex(model).add_codes(codes, vectors=X)
    found = index.add_codes(codes, vectors=X).search(queries, 10, refine=50)
    expected = CodeIndex(model, vectors="float16").add(X, y).search(queries, 10, refine=50)
    assert_nearly_ordered(found, expected, 5e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_index_has_no_answers(model, queries, items, kind):
    index = CodeIndex(model, vectors=kind)
    for _ in range(2):
        scores, ids = index.search(queries, refine=5)
        assert scores.shape == ids.shape == (len(queries), 0)
        index.add(items[0][:0])
    assert len(index.add(items[0][:3]).add(items[0][:0]).search(queries[0], refine=5)[1]) == 3


# numbers ------------------------------------------------------------------------------------------------------------------


@given(seed=st.integers(0, 1000), n=st.integers(1, 40), spread=st.floats(1e-6, 1))
def test_int8_is_off_by_half_a_scale_and_by_few_after_merges(seed, n, spread):
    rng = np.random.default_rng(seed)
    pieces = [
        np.float32(rng.normal(size=(n, 5)) * spread * rng.choice([0.001, 1, 4], size=5)) for _ in range(6)
    ]
    largest = np.abs(pieces[0]).max(axis=0)
    alone = Vectors.of_items(pieces[0], pieces[0][:, :2], "int8")
    assert (np.abs(alone.decoded()[0] - pieces[0]) <= 0.6 * largest / 127 + 2.0**-36).all()
    joined = join_vectors([Vectors.of_items(x, x[:, :2], "int8") for x in pieces[:2]])
    for x in pieces[2:]:
        joined = join_vectors([joined, Vectors.of_items(x, x[:, :2], "int8")])
    everything = np.concatenate(pieces)
    largest = np.abs(everything).max(axis=0)
    units, meanings = joined.decoded()
    assert (np.abs(units - everything) <= 3.2 * 1.19 * largest / 127 + 2.0**-36).all()
    np.testing.assert_array_equal(meanings, units[:, :2])


def test_meanings_that_repeat_are_kept_once():
    rng = np.random.default_rng(0)
    of_labels = rng.integers(0, 2, size=(3, 10)).astype(np.float32)
    which = rng.integers(0, 3, size=100)
    units = rng.normal(size=(100, 4)).astype(np.float32)
    kept = Vectors.of_items(units, of_labels[which], "int8")
    assert kept.nbytes == 100 * (4 + 4) + 3 * 10 + 4 * 14
    np.testing.assert_array_equal(kept.take(np.arange(40, 50)).decoded()[1], of_labels[which[40:50]])
    both = join_vectors([kept, kept.take(np.arange(10))])
    assert both.nbytes == 110 * (4 + 4) + 3 * 10 + 4 * 14
    np.testing.assert_array_equal(both.decoded()[1], of_labels[np.append(which, which[:10])])
