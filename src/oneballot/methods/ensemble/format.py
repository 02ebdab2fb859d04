"""The models of several parties as one: predictions averaged class by class, with weights of its own for each cohort.

A safetensors file with the members' bytes and weights. Members keep their own formats: inert ones are opened in this
process, all others only ever run in the sandbox, also when an outcome is loaded later.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ... import plugins
from ...errors import DataError, OneBallotError, OneBallotWarning, Spoiled
from ...formats.kernel import KernelModel, as_probabilities, scores_of
from ...formats.safetensors import Arrays, read_arrays
from ...interfaces import Ask, Model
from ...types import Array, Blob

ROWS_AT_ONCE = 4096
MOST_MEMBERS = 1_000_000


class EnsembleModel:
    """weights `(cohorts, members, classes)`: how much a member's prediction for a class counts in a cohort.

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
        ask: Ask | None = None,
    ) -> None:
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
        """For each class the weighted mean of the members' probabilities, then normalized over the classes."""
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
        return EnsembleModel(members, self.weights[cohort : cohort + 1, some], ask=self._ask_sandbox)

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
        """Each member's index and probabilities `(rows, classes)`. A member that fails is left out with a warning."""
        kernels = {i: model for i, model in self._opened.items() if isinstance(model, KernelModel)}
        for i, scores in zip(kernels, scores_of(list(kernels.values()), X), strict=True):
            yield i, as_probabilities(scores)
        for i, blob in enumerate(self.members):
            if i in kernels:
                continue
            try:
                if i in self._opened:
                    yield i, self._opened[i].predict_proba(X)
                else:
                    yield i, self._ask_sandbox(blob, X, classes=self.classes)
            except Spoiled as reason:
                warnings.warn(f"member {i} is left out: {reason}", OneBallotWarning, stacklevel=2)

    def member_weights(self, X: Array) -> Array:
        """The mean weight of each member over classes and cohorts, the same for every row: `(rows, members)`."""
        return np.broadcast_to(self.weights.mean(axis=(0, 2)), (len(X), len(self.members)))

    def _mean(self, X: Array) -> Array:
        weights = self.weights.sum(axis=0)
        total, counted = np.zeros((len(X), self.classes)), np.zeros(self.classes)
        for i, probabilities in self.member_predictions(X):
            total += weights[i] * probabilities
            counted += weights[i]
        if not counted.any():
            raise OneBallotError("no member of the ensemble made a prediction; the warnings say why")
        total /= np.where(counted > 0, counted, 1)
        total += np.where(total.any(axis=1, keepdims=True), 0.0, counted > 0)  # uniform where all probabilities are 0
        return np.asarray(total / total.sum(axis=1, keepdims=True))

    def _ask_sandbox(self, blob: Blob, X: Array, *, classes: int) -> Array:
        if self._ask is None:
            raise OneBallotError(f"a {blob.format} model only runs in the sandbox; open it with Outcome.load")
        return self._ask(blob, X, classes=classes)

    @cached_property
    def _opened(self) -> dict[int, Model]:
        """The members in inert formats."""
        formats = {name: plugins.find("formats", name) for name in {blob.format for blob in self.members}}
        inert = {i: blob for i, blob in enumerate(self.members) if formats[blob.format].inert}
        return {i: formats[blob.format].load(blob.data, classes=self.classes) for i, blob in inert.items()}


def hash_name(party: str) -> str:
    return hashlib.blake2b(party.encode(), digest_size=8).hexdigest()


class EnsembleFormat:
    name: ClassVar[str] = "ensemble"
    inert: ClassVar[bool] = False
    libraries: ClassVar[tuple[str, ...]] = ()

    @staticmethod
    def check(data: bytes, *, classes: int, features: int) -> None:
        """Checks every member with its own format; an ensemble within an ensemble is rejected."""
        members, arrays = _read(data)
        weights, centres, cohort = arrays["weights"], arrays["centres"], arrays["cohort"]
        _expect("weights", weights, np.float64, (*weights.shape[:1], len(members), classes))
        if not ((weights >= 0) & (weights <= 2**53)).all() or not weights.any(axis=(1, 2)).all():
            raise Spoiled("weights: expected 0 or above, and some above 0 in every cohort")
        _expect("centres", centres, np.float64, (len(weights), *centres.shape[1:2], classes))
        if not np.isfinite(centres).all():
            raise Spoiled("centres: expected finite numbers")
        if not ((cohort >= 0) & (cohort < len(weights))).all():
            raise Spoiled(f"cohort: expected 0 to {len(weights) - 1}")
        for i, blob in enumerate(members):
            try:
                plugins.find("formats", blob.format).check(blob.data, classes=classes, features=features)
            except Spoiled as reason:
                raise Spoiled(f"member {i}: {reason}") from None

    @staticmethod
    def load(data: bytes, *, classes: int) -> EnsembleModel:
        members, arrays = _read(data)
        names = [bytes(name).hex() for name in arrays["parties"]]
        cohort = dict(zip(names, arrays["cohort"].tolist(), strict=True))
        return EnsembleModel(members, arrays["weights"], cohort=cohort, centres=arrays["centres"])


def _read(data: bytes) -> tuple[list[Blob], Arrays]:
    metadata, arrays = read_arrays(data)
    if arrays.keys() != {"bytes", "ends", "formats", "weights", "centres", "parties", "cohort"}:
        raise Spoiled(f"an ensemble with the arrays {', '.join(sorted(arrays))[:200]}: expected other arrays")
    names, content, ends, formats = _format_names(metadata), arrays["bytes"], arrays["ends"], arrays["formats"]
    _expect("bytes", content, np.uint8, (content.size,))
    _expect("ends", ends, np.int64, (ends.size,))
    _expect("formats", formats, np.int64, (ends.size,))
    _expect("cohort", arrays["cohort"], np.int64, (arrays["cohort"].size,))
    _expect("parties", arrays["parties"], np.uint8, (arrays["cohort"].size, 8))
    if not 0 < ends.size <= MOST_MEMBERS:
        raise Spoiled(f"{ends.size:,} members: expected 1 to {MOST_MEMBERS:,}")
    starts = np.concatenate([[0], ends[:-1]])
    if (starts > ends).any() or starts.min() < 0 or content.size != ends[-1]:
        raise Spoiled("ends: expected the members one after the other")
    if not ((formats >= 0) & (formats < len(names))).all():
        raise Spoiled(f"formats: expected 0 to {len(names) - 1}")
    whole = content.tobytes()
    spans = zip(formats.tolist(), starts.tolist(), ends.tolist(), strict=True)
    return [Blob(names[format], whole[start:end]) for format, start, end in spans], arrays


def _expect(name: str, array: Array, dtype: npt.DTypeLike, shape: tuple[int, ...]) -> None:
    if array.dtype != dtype or array.shape != shape:
        raise Spoiled(f"{name} is {array.dtype} {array.shape}: expected {np.dtype(dtype)} {shape}")


def _format_names(metadata: Mapping[str, str]) -> list[str]:
    try:
        names: Any = json.loads(metadata.get("formats", ""))
    except (ValueError, TypeError, RecursionError):
        names = None
    known = set(plugins.names("formats")) - {EnsembleFormat.name}
    if not isinstance(names, list) or not all(isinstance(name, str) and name in known for name in names):
        raise Spoiled(f"the members of an ensemble must be of the formats {', '.join(sorted(known))}")
    return names


plugin = EnsembleFormat
