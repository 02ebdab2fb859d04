"""ROC-AUC on each party's own test rows (Guha et al., "One-Shot Federated Learning", 2019, section 4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from oneballot.interfaces import Learner
from oneballot.types import Array, Data, Task


def mean_auc(probabilities: Array, y: Array) -> float:
    """The ROC-AUC of each class against the rest, averaged over the classes in y, of which there are at least two.

    Probabilities are `(rows, classes)`, class numbers y `(rows,)`. With two classes it is the ordinary AUC.
    """
    from sklearn.metrics import roc_auc_score

    return float(np.mean([roc_auc_score(y == c, probabilities[:, c]) for c in np.unique(y)]))


def auc_at_parties(predict: Callable[[Array], Array], tests: Mapping[str, Data]) -> dict[str, float]:
    """The ROC-AUC of one model on the test rows of each party that has several classes there."""
    probabilities = predict(np.concatenate([test.X for test in tests.values()]))
    ends = np.cumsum([len(test) for test in tests.values()])
    by_party = zip(tests.items(), np.split(probabilities, ends[:-1]), strict=True)
    return {party: mean_auc(rows, test.y) for (party, test), rows in by_party if _has_classes(test)}


def local_auc_at_parties(
    learner: Learner, parties: Mapping[str, Data], tests: Mapping[str, Data], classes: int, *, min_rows: int = 1
) -> dict[str, float]:
    """The ROC-AUC of each party's own model; 0.5, that of a constant, for a party with fewer than min_rows rows."""
    X = np.concatenate([part.X for party in parties for part in (parties[party], tests[party])])
    tasks, trained, start = [], [], 0
    for party, data in parties.items():
        rows, queries = np.split(start + np.arange(len(data) + len(tests[party])), [len(data)])
        start += len(rows) + len(queries)
        if min_rows <= len(data) and _has_classes(tests[party]):
            tasks.append(Task(rows, data.y, ask=queries, label=party))
            trained.append(party)
    predictions = dict(zip(trained, learner.fit_many(X, tasks, classes, keep=False).predictions(), strict=True))
    return {
        party: mean_auc(predictions[party], tests[party].y) if party in predictions else 0.5
        for party in parties
        if _has_classes(tests[party])
    }


def _has_classes(test: Data) -> bool:
    return len(np.unique(test.y)) > 1
