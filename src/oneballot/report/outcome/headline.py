"""The first lines of a report: whether the model can be used, what speaks against it, and what is unknown."""

from __future__ import annotations

import numpy as np

from ...server.verdict import Verdict
from ...types import Array
from ..gain import paired
from ..groups import Groups
from ..metrics import Metrics, recognised
from ..page import Notice
from ..text import percent, plural, score
from .quality import majority
from .subject import Subject, Tested

UNCALIBRATED = 0.1
"""An expected calibration error above this is pointed out."""
FEW_ROWS = 100
"""With fewer labelled rows the figures are uncertain."""


def headline(subject: Subject) -> list[Notice]:
    """Bad news first. Only a model that labelled rows show to be useful gets a good word."""
    outcome, tested = subject.outcome, subject.visible_test
    bad: list[Notice] = []
    if outcome.ledger.rehearsal:
        bad.append(
            Notice("The noise can be reproduced from its seed. Publish nothing.", "bad", "A rehearsal: NOT PRIVATE")
        )
    bad += collapse(outcome.verdict)
    bad += _one_class(outcome.verdict, tested)
    if tested is None:
        return [*bad, _untested(subject)]
    bad += _failures(tested)
    return [*bad, *_doubts(tested), _result(subject, tested, good=not bad), *_calibration(subject, tested)]


def collapse(verdict: Verdict | None) -> list[Notice]:
    """A warning if the model predicts too few classes."""
    if verdict is None or not verdict.collapsed:
        return []
    text = verdict.warning().replace("`", "")
    return [Notice(text[:1].upper() + text[1:] + ".", "bad", "The model has collapsed. Do not use it.")]


def _one_class(verdict: Verdict | None, tested: Tested | None) -> list[Notice]:
    """A warning if nearly all rows of the parties have one class, and no labelled row is of the others."""
    text = "" if verdict is None else verdict.doubt().replace("`", "")
    if verdict is None or not text:
        return []
    shown = {str(each["class"]) for each in tested.metrics.by_class if each["support"]} if tested else set()
    if tested and {name for name, share in verdict.parties.items() if share} <= shown:
        return []
    return [Notice(f"{text}.", "bad", "Nearly all rows have one class, so accuracy says nothing")]


def missed_classes(metrics: Metrics) -> list[Notice]:
    """A warning for each class of which no row is recognised."""
    found = []
    for each in metrics.missed:
        rows = "the only row" if each["support"] == 1 else f"none of the {each['support']:,} rows"
        text = f"It {'fails on' if each['support'] == 1 else 'recognises'} {rows} of class {each['class']}."
        found.append(Notice(text, "bad", f"The model never recognises {each['class']}"))
    return found


def _untested(subject: Subject) -> Notice:
    if subject.tested is not None:
        return Notice(
            "It was tested, but figures about the labelled rows have no noise and are not on this page. If the rows "
            "may be published, add --public-data; otherwise see the server's page (--server-page).",
            "warning",
            "This page does not state how good the model is",
        )
    return Notice(
        "No labelled rows were given, so accuracy is not known. The verdict below is a plausibility check, not a test: "
        "add --data with labelled rows that no party has trained on.",
        "warning",
        "It is unknown how good the model is",
    )


def _failures(tested: Tested) -> list[Notice]:
    """Reasons not to use the model that the labelled rows show."""
    metrics = tested.metrics
    found = missed_classes(metrics)
    trivial = majority(tested)
    if trivial is not None:
        name, scores = trivial
        difference, margin = paired(metrics.target.row_scores(tested.probabilities, tested.y), scores)
        balanced = metrics.intervals.get("balanced_accuracy", (1.0, 1.0))[0]
        chance = 1 / max(len(metrics.target.classes), 1)
        if difference <= margin and balanced <= chance * 1.05:
            text = (
                f"Its accuracy, {percent(float(metrics['accuracy']))}, is not beyond chance above that of always "
                f"predicting {name} ({percent(float(scores.mean()))})."
            )
            found.append(Notice(text, "bad", "The model is no better than a constant. Do not use it."))
    low, high = metrics.intervals.get("auc", (1.0, 1.0))
    if low <= 0.5 and high == high:
        text = f"The 95 % interval of its AUC, {low:.3f} to {high:.3f}, includes 0.5, which is guessing."
        found.append(Notice(text, "bad", "The model may rank rows no better than chance"))
    return [*found, *(notice for by in tested.groups if (notice := _group_failure(by)) is not None)]


def _group_failure(by: Groups) -> Notice | None:
    """The values of a column for which the model is of no use, or far worse than for the other rows."""
    said = by.useless_sentence()
    if not said and not by.uneven:
        return None
    parts = ([f"{said[:1].upper()}{said[1:]}."] if said else []) + [by.worst_sentence(exact=False)]
    return Notice(" ".join(filter(None, parts)), "bad", f"The model fails for part of the rows, by {by.column}")


def _doubts(tested: Tested) -> list[Notice]:
    found = []
    if tested.rows < FEW_ROWS:
        text = f"{plural(tested.rows, 'labelled row')} show little: the intervals are wide. Test on more rows."
        found.append(Notice(text, "warning", "Few labelled rows"))
    for each in tested.metrics.weak:
        text = f"It recognises only {recognised(each)}. Accuracy hides this: look at balanced accuracy and recall."
        found.append(Notice(text, "warning", f"The model misses most rows of {each['class']}"))
    best = best_party(tested)
    if best is not None:
        party, scores = best
        target = tested.metrics.target
        difference, margin = paired(target.row_scores(tested.probabilities, tested.y), scores)
        if -difference > margin:
            text = (
                f"The model of {party} alone is better by {100 * -difference:.1f} ± {100 * margin:.1f} points on these "
                "rows (the best party is chosen on the same rows). Compare methods with oneballot compare."
            )
            found.append(Notice(text, "warning", "The outcome is worse than the best party alone"))
    return found


def _calibration(subject: Subject, tested: Tested) -> list[Notice]:
    """Whether the probabilities mean what they say. It concerns neither labels nor ranking, so it comes last."""
    ece = tested.metrics.values.get("ece", 0.0)
    if not ece > UNCALIBRATED:
        return []
    sure, right = sureness(tested)
    said = f"its predictions have a probability of {percent(sure)} on average, and {percent(right)} of them are right"
    direction = (
        f"The model is too {'sure' if sure > right else 'unsure'}: {said}"
        if abs(sure - right) > ece / 2
        else f"The model is too sure of some rows and too unsure of others: {said}"
    )
    text = (
        f"{direction} (expected calibration error {ece:.3f}). Do not read its probabilities as risks. Its labels and "
        "its ranking of the rows do not depend on this."
    )
    if subject.outcome.temperature is not None:
        text += " The probabilities are calibrated on public rows, which may have harmed: compare with calibrate = "
        text += "false in the election."
    else:
        text += " Compare with calibrate = true in the election: it makes all probabilities sharper or flatter alike, "
        text += "so that public rows fit the votes, which may help in part only."
    return [Notice(text, "warning", "The probabilities are poorly calibrated")]


def sureness(tested: Tested) -> tuple[float, float]:
    """The mean probability of what is predicted, and the share of the predictions that are right."""
    target, predicted = tested.metrics.target, tested.probabilities
    if target.exclusive:
        return float(predicted.max(axis=1).mean()), float(target.row_scores(predicted, tested.y).mean())
    known, right = target.correct(predicted, tested.y)
    return float(np.maximum(predicted, 1 - predicted)[known].mean()), float(right[known].mean())


def _result(subject: Subject, tested: Tested, *, good: bool) -> Notice:
    target, metrics = tested.metrics.target, tested.metrics
    name, shown = next(iter(target.metrics.items()))
    text = f"{shown[:1].upper()}{shown[1:]} {score(name, metrics[name])}"
    if name in metrics.intervals:
        low, high = metrics.intervals[name]
        text += f" (95 % interval {score(name, low)} to {score(name, high)})"
    if name == "accuracy" and "balanced_accuracy" in metrics.values:
        text += f", balanced accuracy {score('balanced_accuracy', metrics['balanced_accuracy'])}"
    text += f" on {plural(tested.rows, 'row')} of {tested.source}"
    parts = []
    if (trivial := majority(tested)) is not None:
        parts.append(f"always predicting {trivial[0]} has {percent(float(trivial[1].mean()))}")
    if (best := best_party(tested)) is not None:
        difference, margin = paired(target.row_scores(tested.probabilities, tested.y), best[1])
        chance = ", a difference within chance" if abs(difference) <= margin else ""
        parts.append(f"the best party alone ({best[0]}) {percent(float(best[1].mean()))}{chance}")
    text += f"; {' and '.join(parts)}." if parts else "."
    return Notice(text, "good" if good and not metrics.weak else "info", "Tested on labelled rows")


def best_party(tested: Tested) -> tuple[str, Array] | None:
    """The party whose own model is best on these rows, and its score for each row."""
    target = tested.metrics.target
    scores = {party: target.row_scores(each, tested.y) for party, each in tested.members.items()}
    if not scores:
        return None
    best = max(scores, key=lambda party: float(np.mean(scores[party])))
    return best, scores[best]
