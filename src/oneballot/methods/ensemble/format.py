"""Models of several parties as one: their answers averaged, class by class, by weights that each cohort has of its own.

A file of bytes and weights in safetensors. The members keep their own formats: inert ones are opened here, all others
are strangers' models that may only be asked in the room, whenever the outcome is used.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from ... import plugins
from ...errors import DataError, OneBallotError, OneBallotWarning, Spoiled
from ...formats.kernel import KernelModel, as_probabilities, scores_of
from ...formats.safetensors import Arrays, read_arrays
from ...interfaces import Ask, Model
from ...types import Array, Blob

ROWS_AT_ONCE = 4096
MOST_MEMBERS = 1_000_000


class EnsembleModel:
    """weights `(cohorts, members, classes)`: what a member's word on a class counts in a cohort; 0 is nothing.

    cohort: by the hash of a party's name (`hashed`), so that an outcome that is given to others names nobody.
    centres `(cohorts, queries, classes)`: what a cohort's members say on average about some public rows.
    """

    def __init__(
        self, members: Sequence[Blob], weights: Array, *,
        cohort: Mapping[str, int] | None = None, centres: Array | None = None, ask: Ask | None = None,
    ) -> None:  # fmt: skip
        self.members, self.weights, self.cohort = members, np.asarray(weights, dtype=np.float64), dict(cohort or {})
        self.centres = np.zeros((len(weights), 0, self.classes)) if centres is None else centres
        self._ask = ask

    @property
    def classes(self) -> int:
        return int(self.weights.shape[2])

    @property
    def cohorts(self) -> int:
        return len(self.weights)

    def use_sandbox(self, ask: Ask) -> None:
        self._ask = ask

    def predict_proba(self, X: Array) -> Array:
        """For each class the mean of those members' answers that count for it, divided by the sum over the classes."""
        blocks = [X[i : i + ROWS_AT_ONCE] for i in range(0, len(X), ROWS_AT_ONCE)]
        return np.concatenate([self._mean(block) for block in blocks]) if blocks else np.empty((0, self.classes))

    def scores(self, X: Array) -> Array:
        return np.asarray(np.log(np.clip(self.predict_proba(X), 1e-12, 1)))

    def dump(self) -> Blob:
        from safetensors.numpy import save

        names = sorted({blob.format for blob in self.members})
        arrays = {
            "bytes": np.frombuffer(b"".join(blob.data for blob in self.members), dtype=np.uint8),
            "ends": np.cumsum([len(blob.data) for blob in self.members], dtype=np.int64),
            "formats": np.array([names.index(blob.format) for blob in self.members], dtype=np.int64),
            "weights": self.weights,
            "centres": np.asarray(self.centres, dtype=np.float64),
            "parties": np.frombuffer(bytes.fromhex("".join(self.cohort)), dtype=np.uint8).reshape(-1, 8),
            "cohort": np.array(list(self.cohort.values()), dtype=np.int64),
        }
        ordered = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        return Blob(EnsembleFormat.name, save(ordered, metadata={"formats": json.dumps(names)}))

    def cohort_of(self, party: str) -> int:
        """The cohort that the ballot of this party was counted in."""
        if (key := hashed(party)) not in self.cohort:
            raise DataError(f"no ballot of {party!r} was counted; `closest` and `best` place a party by what it has")
        return self.cohort[key]

    def of(self, cohort: int) -> EnsembleModel:
        """The ensemble of one cohort."""
        if not 0 <= cohort < self.cohorts:
            raise DataError(f"there is no cohort {cohort}: they are numbered 0 to {self.cohorts - 1}")
        some = np.flatnonzero(self.weights[cohort].any(axis=1))
        members = [self.members[int(i)] for i in some]
        return EnsembleModel(members, self.weights[cohort : cohort + 1, some], ask=self._ask_stranger)

    def closest(self, answers: Array) -> int:
        """The cohort of a new party whose model says this about the rows that cohorts were told apart by."""
        if answers.shape != self.centres.shape[1:]:
            raise DataError(f"answers of shape {answers.shape}: expected {self.centres.shape[1:]}")
        return int(((self.centres - answers) ** 2).sum(axis=(1, 2)).argmin())

    def best(self, X: Array, y: Array) -> int:
        """The cohort whose ensemble gives the labels of a new party's rows, as class numbers, the highest chance."""
        if not (len(X) == len(y) and (np.isin(y, np.arange(self.classes))).all()):
            raise DataError(
                f"{len(X)} rows and {len(y)} labels: expected as many, and class numbers 0 to {self.classes - 1}"
            )
        likely = [np.log(self.of(c).predict_proba(X)[np.arange(len(y)), y] + 1e-6).sum() for c in range(self.cohorts)]
        return int(np.argmax(likely))

    def opinions(self, X: Array) -> Iterator[tuple[int, Array]]:
        """Each member with its probabilities `(rows, classes)`. One that fails is left out, and named in a warning."""
        kernels = {i: model for i, model in self._opened.items() if isinstance(model, KernelModel)}
        for i, scores in zip(kernels, scores_of(list(kernels.values()), X), strict=True):
            yield i, as_probabilities(scores)
        for i, blob in enumerate(self.members):
            if i in kernels:
                continue
            try:
                yield (
                    i,
                    self._opened[i].predict_proba(X)
                    if i in self._opened
                    else self._ask_stranger(blob, X, classes=self.classes),
                )
            except Spoiled as reason:
                warnings.warn(f"member {i} is left out: {reason}", OneBallotWarning, stacklevel=2)

    def _mean(self, X: Array) -> Array:
        weights = self.weights.sum(axis=0)
        total, counted = np.zeros((len(X), self.classes)), np.zeros(self.classes)
        for i, opinion in self.opinions(X):
            total += weights[i] * opinion
            counted += weights[i]
        if not counted.any():
            raise OneBallotError("no member of the ensemble could be asked")
        total /= np.where(counted > 0, counted, 1)
        total += np.where(total.any(axis=1, keepdims=True), 0.0, counted > 0)  # nobody gives any class a chance
        return np.asarray(total / total.sum(axis=1, keepdims=True))

    def _ask_stranger(self, blob: Blob, X: Array, *, classes: int) -> Array:
        if self._ask is None:
            raise OneBallotError(
                f"a stranger's {blob.format} model is asked in the room alone; load the outcome for it"
            )
        return self._ask(blob, X, classes=classes)

    @cached_property
    def _opened(self) -> dict[int, Model]:
        """The members that are arrays poured into our own code."""
        inert = {f for f in {b.format for b in self.members} if plugins.find("formats", f).inert}
        return {i: plugins.find("formats", blob.format).load(blob.data, classes=self.classes)
                for i, blob in enumerate(self.members) if blob.format in inert}  # fmt: skip


def hashed(party: str) -> str:
    return hashlib.blake2b(party.encode(), digest_size=8).hexdigest()


class EnsembleFormat:
    name: ClassVar[str] = "ensemble"
    inert: ClassVar[bool] = False
    libraries: ClassVar[tuple[str, ...]] = ()

    @staticmethod
    def check(data: bytes, *, classes: int, features: int) -> None:
        """Every member is checked by its own format; an ensemble within an ensemble is refused."""
        members, arrays = _open(data)
        weights, centres, parties = arrays["weights"], arrays["centres"], arrays["cohort"]
        if weights.dtype != np.float64 or weights.ndim != 3 or weights.shape[1:] != (len(members), classes):
            raise Spoiled(f"weights are {weights.dtype} {weights.shape}: expected (cohorts, {len(members)}, {classes})")
        if not ((weights >= 0) & (weights <= 2**53)).all() or not weights.any(axis=(1, 2)).all():
            raise Spoiled("weights must be 0 or above, and some above 0 in every cohort")
        cohorts = len(weights)
        if centres.dtype != np.float64 or centres.ndim != 3 or (len(centres), centres.shape[2]) != (cohorts, classes):
            raise Spoiled(f"centres are {centres.dtype} {centres.shape}: expected ({cohorts}, queries, {classes})")
        if not np.isfinite(centres).all():
            raise Spoiled("centres have a number that is not finite")
        if parties.shape != (len(arrays["parties"]),) or not ((parties >= 0) & (parties < cohorts)).all():
            raise Spoiled(f"parties are of other cohorts than 0 to {cohorts - 1}")
        for number, blob in enumerate(members):
            try:
                plugins.find("formats", blob.format).check(blob.data, classes=classes, features=features)
            except Spoiled as reason:
                raise Spoiled(f"member {number}: {reason}") from None

    @staticmethod
    def load(data: bytes, *, classes: int) -> EnsembleModel:
        members, arrays = _open(data)
        names = [bytes(name).hex() for name in arrays["parties"]]
        cohort = dict(zip(names, arrays["cohort"].tolist(), strict=True))
        return EnsembleModel(members, arrays["weights"], cohort=cohort, centres=arrays["centres"])


def _open(data: bytes) -> tuple[list[Blob], Arrays]:
    metadata, arrays = read_arrays(data)
    if arrays.keys() != {"bytes", "ends", "formats", "weights", "centres", "parties", "cohort"}:
        raise Spoiled("an ensemble has other arrays than its members' bytes, weights and cohorts")
    names, ends, kinds = _formats(metadata), arrays["ends"], arrays["formats"]
    whole = all(arrays[name].dtype == np.int64 and arrays[name].ndim == 1 for name in ("ends", "formats", "cohort"))
    if not whole or not 0 < len(ends) == len(kinds) <= MOST_MEMBERS or arrays["bytes"].dtype != np.uint8:
        raise Spoiled("an ensemble does not say where its members end, or of which formats they are")
    starts = np.concatenate([[0], ends[:-1]])
    if (starts > ends).any() or starts.min() < 0 or arrays["bytes"].shape != (ends[-1],):
        raise Spoiled("the members of an ensemble do not lie one after the other")
    if not ((kinds >= 0) & (kinds < len(names))).all():
        raise Spoiled("a member of an ensemble is of a format that is not named")
    if arrays["parties"].dtype != np.uint8 or arrays["parties"].shape[1:] != (8,):
        raise Spoiled("the parties of an ensemble are not hashes of 8 bytes")
    whole_bytes = arrays["bytes"].tobytes()
    members = [
        Blob(names[k], whole_bytes[a:b]) for k, a, b in zip(kinds.tolist(), starts.tolist(), ends.tolist(), strict=True)
    ]
    return members, arrays


def _formats(metadata: Mapping[str, str]) -> list[str]:
    try:
        names: Any = json.loads(metadata.get("formats", ""))
    except (ValueError, TypeError, RecursionError):
        names = None
    known = set(plugins.names("formats")) - {EnsembleFormat.name}
    if not isinstance(names, list) or not all(isinstance(name, str) and name in known for name in names):
        raise Spoiled(f"the members of an ensemble must be of the formats {', '.join(sorted(known))}")
    return names


plugin = EnsembleFormat
