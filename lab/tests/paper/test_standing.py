"""A method is called first only if it is, and if every other method was measured."""

import pytest

from supquant_lab.paper.comparisons import standing_table
from supquant_lab.paper.headline import headline, lead_sentences, missing_cells, verdict_sentences
from supquant_lab.paper.results import OURS, read_results
from supquant_lab.paper.standing import COMPARED, standing

WHERE = {"dataset": "mnist", "bits": 16, "protocol": "paper"}


@pytest.fixture
def stand(made, tmp_path):
    """Return a function that compares ours, .80 learned and .40 encoded, with rivals of given MAP."""

    def compare(codes="learned", *, rivals, **changes):
        cells = dict([made.cell(map_learned=0.8, map_encoded=0.4)])
        cells |= [made.cell("mnist", method, map_learned=0.3, map_encoded=0.2) for method in COMPARED]
        cells |= [
            made.cell("mnist", method, map_learned=learned, map_encoded=encoded, **changes)
            for method, (learned, encoded) in rivals.items()
        ]
        results = read_results(made.folder(tmp_path, cells))
        return standing(results, OURS[0], codes=codes, **WHERE)

    return compare


def test_first_over_all_says_by_how_much_and_before_whom(stand):
    found = stand(rivals={"classifier": (0.75, 0.1)})
    assert found.verdict == "first"
    assert found.sentence() == "first, .0500 before classifier (1 seed)"


def test_learned_codes_are_never_compared_with_encoded_ones(stand):
    rivals = {"classifier": (0.1, 0.7), "sdh": (0.79, 0.1)}
    assert stand("learned", rivals=rivals).rivals[0].series.method == "sdh"
    behind = stand("encoded", rivals=rivals)
    assert behind.verdict == "behind"
    assert behind.sentence() == "not first: .3000 behind classifier (1 seed)"


def test_equal_is_level_and_not_first(stand):
    found = stand(rivals={"classifier": (0.8, 0.1)})
    assert (found.verdict, found.sentence()) == ("level", "level with classifier (1 seed)")


def test_float_vectors_and_scores_are_reported_but_are_not_rivals(stand):
    found = stand("encoded", rivals={"classifier-scores": (None, 0.9)})
    assert found.verdict == "first"
    assert found.sentence().endswith("; classifier-scores is .5000 above it")


def test_nobody_is_first_where_a_method_is_missing(made, tmp_path):
    cells = [made.cell("mnist", method) for method in ("sq", *COMPARED) if method != "bre"]
    results = read_results(made.folder(tmp_path, cells))
    found = standing(results, OURS[0], codes="learned", **WHERE)
    assert (found.verdict, found.missing) == ("ahead", ("bre",))
    assert (
        "first in 0 of 1 comparisons; ahead of all that were measured" in lead_sentences(results, "paper")[0]
    )
    assert found.sentence().endswith("not measured: bre")
    assert missing_cells(results)["mnist"] == [
        ("bre", [16]),
        ("euclidean", [16]),
        ("classifier-scores", [16]),
    ]


def test_variants_of_ours_are_rivals_but_not_needed(stand):
    found = stand(rivals={"sq-triplet": (0.9, 0.1)})
    assert (found.verdict, found.rivals[0].series.method, found.missing) == ("behind", "sq-triplet", ())


def test_the_other_solver_is_named_but_is_not_a_rival_of_ours(made, tmp_path):
    cells = [made.cell("mnist", method, map_learned=0.3) for method in COMPARED]
    cells += [made.cell(map_learned=0.8), made.cell(map_learned=0.81, parameters={"solver": "alternating"})]
    results = read_results(made.folder(tmp_path, cells))
    found = standing(results, OURS[0], codes="learned", **WHERE)
    assert found.verdict == "first"
    assert "sq (alternating) is .0100 above it" in found.sentence()
    assert lead_sentences(results, "paper")[0].endswith(
        "first in 1 of 1 comparisons, at every length on MNIST; sq (alternating) is above it in 1, by at most .0100."
    )


def test_only_seeds_that_both_have_are_compared(made, tmp_path):
    cells = [made.cell(seed=seed, map_learned=value) for seed, value in ((0, 0.5), (1, 0.9))]
    cells += [made.cell("mnist", "pq", seed=0, map_learned=0.6), made.cell("mnist", "sdh", seed=7)]
    found = standing(read_results(made.folder(tmp_path, cells)), OURS[0], codes="learned", **WHERE)
    assert [(rival.series.method, rival.seeds) for rival in found.rivals] == [("pq", (0,))]
    assert found.rivals[0].margin == pytest.approx(-0.1)  # over both seeds of ours it would be +.1
    assert "sdh" in found.missing


def test_seeds_with_the_opposite_sign_are_counted(made, tmp_path):
    ours = [made.cell(seed=seed, map_learned=value) for seed, value in enumerate((0.9, 0.9, 0.7))]
    cells = [*ours, *(made.cell("mnist", "sdh", seed=seed, map_learned=0.8) for seed in range(3))]
    results = read_results(made.folder(tmp_path, cells))
    found = standing(results, OURS[0], codes="learned", **WHERE)
    assert "before sdh (3 seeds, 1 of them the other way)" in found.sentence()
    entry = standing_table(results, "paper").rows[0].entries[0]
    assert entry.note == "sdh, 2 of 3 seeds"


def test_rival_that_was_cut_short_is_named(stand):
    found = stand(rivals={"bre": (0.3, 0.2)}, truncated=True)
    assert found.sentence().endswith("stopped at the time limit: bre")


def test_rival_that_was_cut_short_at_one_of_several_lengths_is_named(made, tmp_path):
    cells = [made.cell(bits=bits, map_learned=0.9) for bits in (16, 32)]
    cells += [made.cell("mnist", "sdh", bits, map_learned=0.8) for bits in (16, 32)]
    cells += [made.cell("mnist", "cq", bits, map_learned=0.2, truncated=bits == 32) for bits in (16, 32)]
    (sentence, _) = verdict_sentences(read_results(made.folder(tmp_path, cells)), "paper")
    assert "at 16, 32 bits" in sentence
    assert "stopped at the time limit: cq" in sentence


def test_the_shortest_and_the_longest_code_are_compared_with_the_paper(made, tmp_path):
    cells = [made.cell(bits=bits, map=0.96) for bits in (16, 32, 128)]
    assert headline(read_results(made.folder(tmp_path, cells))).with_paper == (
        "sq reaches MAP .9600 where the paper has .9329 (MNIST, 16 bits), "
        ".9600 where the paper has .9400 (MNIST, 128 bits)."
    )


def test_a_stand_in_is_distinguished_from_the_data_of_the_paper(made, tmp_path):
    cells = [made.cell("tinyimagenet-1500", bits=bits, map=0.7) for bits in (16, 32)]
    said = headline(read_results(made.folder(tmp_path, cells)))
    assert said.with_paper == ""
    (sentence,) = said.stand_ins
    assert sentence.startswith(
        "On other data, Tiny-ImageNet (R = 1,500), sq reaches MAP .7000 at 16 bits (the paper on ImageNet: .5039)."
    )
    assert sentence.endswith("This is other data: the two numbers cannot be compared directly.")
    assert headline(read_results(made.folder(tmp_path / "own", [made.cell()]))).stand_ins == ()


def test_our_other_ranking_is_not_a_rival(made, tmp_path):
    cells = [made.cell(), made.cell(ranking="label", map_learned=0.99), made.cell("mnist", "pq")]
    found = standing(read_results(made.folder(tmp_path, cells)), OURS[0], codes="learned", **WHERE)
    assert [rival.series.method for rival in found.rivals] == ["pq"]


def test_methods_with_more_anchors_are_rivals_of_the_label_ranking(made, tmp_path):
    cells = dict(
        made.cell("mnist", method, parameters={"anchors": 1000}) for method in ("sq", "sdh", "classifier")
    )
    own = {"features": "labels", "anchors": 3000}
    cells |= [made.cell(ranking="label", map_learned=0.97, parameters=own)]
    name, more = made.cell("mnist", "classifier", map_learned=0.98, parameters={"anchors": 4000})
    results = read_results(made.folder(tmp_path, cells | {f"more-{name}": more}))
    published, by_meaning = (standing(results, ours, codes="learned", **WHERE) for ours in OURS)
    assert [rival.series.label for rival in published.rivals] == ["classifier", "sdh"]
    assert by_meaning.rivals[0].series.label == "classifier (4,000 anchors)"
    assert by_meaning.verdict == "behind"


def test_there_is_no_standing_if_ours_was_not_measured(made, tmp_path):
    results = read_results(made.folder(tmp_path, [made.cell("mnist", "pq")]))
    assert standing(results, OURS[0], codes="learned", **WHERE) is None
    assert headline(results).lead == ("There is nothing to compare yet.",)


def test_sentences_join_lengths_and_name_the_worst(made, tmp_path):
    cells = [made.cell(bits=bits, map_learned=0.5) for bits in (16, 32)]
    cells += [made.cell("mnist", "sdh", bits, map_learned=0.5 + bits / 1000) for bits in (16, 32)]
    other = {"parameters": {"solver": "alternating"}}
    cells += [made.cell(bits=bits, map_learned=0.6 - bits / 1000, **other) for bits in (16, 32)]
    results = read_results(made.folder(tmp_path, cells))
    sentence = verdict_sentences(results, "paper")[0]
    assert sentence.startswith("MNIST, learned: at 16, 32 bits not first: at worst .0320 behind sdh (1 seed)")
    assert "sq (alternating) is up to .0840 above it" in sentence
    assert "not first in 2, at worst .0320 behind sdh" in lead_sentences(results, "paper")[0]
