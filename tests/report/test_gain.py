"""The verdict on a simulated federation names who gains, who loses, why, and what to try."""

from __future__ import annotations

import warnings

import numpy as np

import oneballot as ob
from oneballot.report.beside import Beside
from oneballot.report.gain import Gain, Setting, paired
from oneballot.simulation import baselines, simulate_parties
from oneballot.simulation import gain as simulation_gain
from oneballot.types import Array


def right(share: float, rows: int = 1000, seed: int = 0) -> Array:
    """Row scores of a model with this accuracy; the same rows are easy for every model."""
    difficulty = np.random.default_rng(seed).permutation(rows)
    return (difficulty < share * rows).astype(float)


def setting(**settings: object) -> Setting:
    counts = {"a": np.array([5, 5]), "b": np.array([100, 0]), "big": np.array([900, 900])}
    rows = {party: int(count.sum()) for party, count in counts.items()}
    defaults = {"classes": ["no", "yes"], "class_counts": counts, "row_counts": rows}
    defaults |= {"public_rows": 200, "distils": True}  # type: ignore[dict-item]
    return Setting(**{**defaults, **settings})  # type: ignore[arg-type]


def test_it_says_who_gains_who_loses_why_and_what_to_try() -> None:
    gain = Gain.of(setting(), {"a": right(0.7), "b": right(0.5), "big": right(0.9)}, right(0.85), right(0.95))
    assert gain.winners == ["b", "a"]
    assert gain.losers == ["big"]
    who, overall, why, what = gain.sentences()
    assert who.startswith("2 of 3 parties gain, 25.0 points on average (most: b +35.0 ±")
    assert "; 1 loses: big -5.0 ±" in who
    assert "5.0 points BELOW the best party (big) and 10.0 points below pooled data" in overall
    assert "b has no rows of class yes, which others have" in why
    assert "a has 10 rows only" in why
    assert "learns from 200 public rows alone, and big has 1,800 rows of its own" in why
    assert 'weights = "open"' in what
    assert "more public rows than 200" in what
    assert gain.describe()["parties"]["b"]["lacks"] == ["yes"]


def test_parties_without_rows_are_counted_and_said_not_to_be_compared() -> None:
    gain = Gain.of(setting(empty=69), {"a": right(0.7), "b": right(0.5), "big": right(0.9)}, right(0.85), right(0.95))
    assert "69 of 72 parties got no rows in this split, so they are not compared." in gain.sentences()[0]


def test_differences_within_chance_are_neither_gains_nor_losses() -> None:
    rng = np.random.default_rng(0)
    ours, theirs = (rng.random(100) < 0.8).astype(float), (rng.random(100) < 0.8).astype(float)
    difference, margin = paired(ours, theirs)
    assert abs(difference) < margin
    gain = Gain.of(setting(), {"a": theirs}, ours, ours)
    assert gain.winners == gain.losers == []
    assert "None of 1 parties gain; for 1 the difference is within chance." in gain.sentences()[0]


def test_nothing_is_to_be_tried_if_all_gain_and_pooled_data_are_hardly_better() -> None:
    gain = Gain.of(setting(), {"a": right(0.7), "b": right(0.5)}, right(0.9), right(0.91))
    assert gain.sentences()[0].startswith("All 2 parties gain")
    assert not any(sentence.startswith("What to try") for sentence in gain.sentences())


def test_private_elections_and_the_open_ensemble_get_other_advice() -> None:
    alone = {"a": right(0.9)}
    private = Gain.of(setting(level="L2"), alone, right(0.6), right(0.95)).sentences()
    assert "the noise of L2 costs accuracy" in private[2]
    assert "more parties, or a larger epsilon" in private[3]
    kept = Gain.of(setting(open_ensemble=True, distils=False), alone, right(0.6), right(0.95)).sentences()
    assert "open ensemble" not in kept[-1]
    assert "oneballot compare" in kept[-1]


def test_a_difference_that_rounds_to_zero_is_said_to_be_none() -> None:
    scores = np.r_[np.ones(8), np.zeros(2)]
    gain = Gain.of(setting(), {"a": scores}, scores, scores)
    assert "as accurate as the best party (a) and as accurate as pooled data" in gain.sentences()[1]


def test_equal_differences_are_not_certainty() -> None:
    ones, zeros = np.ones(2), np.zeros(2)
    difference, margin = paired(ones, zeros)
    assert (difference, margin) == (1.0, 1.5), "two rows show nothing"
    assert paired(np.ones(100), np.zeros(100)) == (1.0, 0.03)
    few = np.r_[np.ones(2), np.zeros(98)]
    assert paired(few, np.zeros(100))[1] >= 0.02


def auc(federation: float, mean: float, best: float, margin: float = 0.03) -> Beside:
    return Beside("auc", "ROC AUC", "higher", federation, mean, best, margin)


def test_metrics_that_accuracy_hides_are_named_and_lead_to_advice() -> None:
    """99:1 data: all are as accurate, and the federation ranks rows far worse than its parties."""
    same, counts = right(0.99), {"a": np.array([990, 10]), "b": np.array([495, 5])}
    rare = setting(class_counts=counts, row_counts={"a": 1000, "b": 500})
    alone = {"a": same, "b": same}
    gain = Gain.of(rare, alone, same, same, [auc(0.657, 0.949, 0.988)])
    who, _, other, why, what = gain.sentences()
    assert who == "None of 2 parties gain; for 2 the difference is within chance."
    assert other == (
        "By ROC AUC the federation, 0.657, is WORSE than the mean party (0.949) and WORSE than the best party (0.988), "
        "beyond chance."
    )
    assert why.startswith("Why: class yes has 1.0 % of the rows")
    assert 'weights = "open"' in what
    assert gain.describe()["other_metrics"]["auc"]["mean_party"] == 0.949
    unclear = Gain.of(rare, alone, same, same, [auc(0.957, 0.949, 0.978)])
    assert len(unclear.sentences()) == 2
    nan = float("nan")
    assert len(Gain.of(rare, alone, same, same, [auc(nan, nan, 0.9, nan)]).sentences()) == 2


def test_metrics_that_agree_with_accuracy_are_not_repeated() -> None:
    better, alone = [auc(0.95, 0.7, 0.8)], {"a": right(0.7), "b": right(0.5)}
    assert not any("AUC" in each for each in Gain.of(setting(), alone, right(0.9), right(0.9), better).sentences())
    some = Gain.of(setting(), {"a": right(0.9), "b": right(0.5)}, right(0.9), right(0.9), better).sentences()
    assert "By ROC AUC the federation, 0.950, is better than the mean party (0.700) and better than" in some[2]
    off = Beside("off", "mean grades off", "lower", 0.4, 0.9, 0.5, 0.2)
    assert off.signs == (1, 0)


def test_a_simulation_says_that_rare_rows_are_lost() -> None:
    """Votes on 200 public rows, of which two are rare, teach the final model nothing about them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4200, 6)).astype(np.float32)
    y = (X[:, :2].sum(axis=1) > 3.3).astype(int)
    assert 0.005 < y.mean() < 0.015
    forest = ob.Sklearn("RandomForestClassifier", {"n_estimators": 10, "max_depth": 5})
    election = ob.Election(["healthy", "ill"], X[:200], method=ob.FedKT(), learner=forest)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ob.OneBallotWarning)
        names = np.array(["healthy", "ill"])
        data, test = election.data(X[200:2200], names[y[200:2200]]), election.data(X[2200:], names[y[2200:]])
        parties = {"a": data.take(np.arange(0, 2000, 2)), "b": data.take(np.arange(1, 2000, 2))}
        simulation = simulate_parties(election, parties)
    found = simulation_gain(election, simulation, baselines(election, parties, test), test)
    assert not found.losers
    said = " ".join(found.sentences())
    assert "By ROC AUC the federation" in said
    assert "WORSE than the best party" in said
    assert "class ill has 0." in said
    assert "What to try: the open ensemble" in said
