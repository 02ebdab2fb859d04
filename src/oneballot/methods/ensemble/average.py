"""The models of several parties as one: predictions averaged class by class, with other weights for each cohort."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ...errors import DataError, OneBallotError
from ...interfaces import AskModel, Context, HasReplaceableMembers
from ...types import Array, Blob, Contents
from .members import Members, in_blocks, warn_of_unanswered, write_members


class EnsembleModel(HasReplaceableMembers):
    """weights `(cohorts, members, classes)`: how much a member's prediction for a class counts in a cohort.
    parties: names for warnings, which are not saved.

    cohort: a cohort for the hash of each party's name, so that a published outcome names no party.
    centres `(cohorts, queries, classes)`: the mean prediction of a cohort's members on some public rows.
    """

    def __init__(
        self,
        members: Sequence[Blob],
        weights: Array,
        *,
        cohort: Mapping[str, int] | None = None,
        centres: Array | None = None,
        ask: AskModel | None = None,
        parties: Sequence[str] = (),
    ) -> None:
        self.weights, self.cohort = np.asarray(weights, dtype=np.float64), dict(cohort or {})
        self.members = Members(members, self.classes, ask, parties)
        self.centres = np.zeros((len(weights), 0, self.classes)) if centres is None else centres

    @property
    def classes(self) -> int:
        return int(self.weights.shape[2])

    @property
    def cohorts(self) -> int:
        return len(self.weights)

    sandboxed = True

    def use_sandbox(self, ask: AskModel) -> None:
        self.members.ask = ask

    def predict_proba(self, X: Array) -> Array:
        """For each class the weighted mean of the members' probabilities, then normalized over the classes."""
        return np.concatenate([np.empty((0, self.classes)), *map(self._mean, in_blocks(X))])

    def scores(self, X: Array) -> Array:
        return np.asarray(np.log(np.clip(self.predict_proba(X), 1e-12, 1)))

    def dump(self) -> Blob:
        arrays = {
            "weights": self.weights,
            "centres": np.asarray(self.centres, dtype=np.float64),
            "parties": pack_names(list(self.cohort)),
            "cohort": np.array(list(self.cohort.values()), dtype=np.int64),
        }
        return write_members(self.members.blobs, arrays, "ensemble")

    def cohort_of(self, party: str) -> int:
        """The cohort of a party whose ballot was counted."""
        if (key := hash_name(party)) not in self.cohort:
            raise DataError(f"no ballot of {party!r} was counted; place a new party with `closest` or `best`")
        return self.cohort[key]

    def of(self, cohort: int) -> EnsembleModel:
        """The ensemble of one cohort."""
        if not 0 <= cohort < self.cohorts:
            raise DataError(f"there is no cohort {cohort}: they are numbered 0 to {self.cohorts - 1}")
        some = np.flatnonzero(self.weights[cohort].any(axis=1))
        members = [self.members[int(i)] for i in some]
        return EnsembleModel(members, self.weights[cohort : cohort + 1, some], ask=self.members.ask)

    def closest(self, predictions: Array) -> int:
        """The cohort of a new party whose model makes these predictions on `cohorts.cohort_queries`."""
        if predictions.shape != self.centres.shape[1:]:
            raise DataError(f"predictions of shape {predictions.shape}: expected {self.centres.shape[1:]}")
        return int(((self.centres - predictions) ** 2).sum(axis=(1, 2)).argmin())

    def best(self, X: Array, y: Array) -> int:
        """The cohort whose ensemble makes a new party's labels (class numbers) most likely."""
        if len(X) != len(y) or not np.isin(y, np.arange(self.classes)).all():
            raise DataError(
                f"{len(X)} rows and {len(y)} labels: expected one for each row, class numbers 0 to {self.classes - 1}"
            )
        rows = np.arange(len(y))
        likely = [np.log(self.of(c).predict_proba(X)[rows, y] + 1e-6).sum() for c in range(self.cohorts)]
        return int(np.argmax(likely))

    def member_predictions(self, X: Array) -> Iterator[tuple[int, Array]]:
        """Each member's index and probabilities `(rows, classes)`, all 0 in a row where it abstains. A member that
        fails is left out with a warning."""
        return self.members.predictions(X)

    def member_weights(self, X: Array) -> Array:
        """The mean weight of each member over classes and cohorts, the same for every row: `(rows, members)`."""
        return np.broadcast_to(self.weights.mean(axis=(0, 2)), (len(X), len(self.members)))

    def find_member(self, party: str | None, contents: Contents | None) -> int | None:
        """The member with the bytes of this ballot's model; an average holds no names."""
        return None if contents is None else self.members.find(contents.get("model"))

    def with_member(self, member: int, contents: Contents, ctx: Context, ask: AskModel) -> EnsembleModel:
        """The same ensemble with this ballot's model in the place of a member."""
        members = self.members.replaced(member, contents["model"])
        return EnsembleModel(members, self.weights, cohort=self.cohort, centres=self.centres, ask=ask)

    def _mean(self, X: Array) -> Array:
        weights = self.weights.sum(axis=0)
        total, counted = np.zeros((2, len(X), self.classes))
        for i, probabilities in self.member_predictions(X):
            total += weights[i] * probabilities
            counted += weights[i] * probabilities.any(axis=1, keepdims=True)
        if len(X) and not counted.any():
            raise OneBallotError("no member of the ensemble made a prediction; the warnings say why")
        if unanswered := int((~counted.any(axis=1)).sum()):
            warn_of_unanswered(unanswered)
            counted[~counted.any(axis=1)] = 1.0
        total /= np.where(counted > 0, counted, 1)
        total += np.where(total.any(axis=1, keepdims=True), 0.0, counted > 0)  # uniform where all probabilities are 0
        return np.asarray(total / total.sum(axis=1, keepdims=True))


def hash_name(party: str) -> str:
    return hashlib.blake2b(party.encode(), digest_size=8).hexdigest()


def pack_names(hashes: Sequence[str]) -> Array:
    """Hashes of names as bytes, `(parties, 8)`."""
    return np.frombuffer(bytes.fromhex("".join(hashes)), dtype=np.uint8).reshape(-1, 8)
