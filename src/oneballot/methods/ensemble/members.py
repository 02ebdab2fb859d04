"""The models in an ensemble: inert ones are evaluated in this process, all others only ever in the sandbox."""

from __future__ import annotations

import itertools
import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ... import plugins
from ...errors import OneBallotError, OneBallotWarning, Spoiled
from ...formats.forest import ForestModel, predict_many
from ...formats.kernel import KernelModel, as_probabilities, scores_of
from ...formats.safetensors import Arrays, read_arrays
from ...interfaces import AskModel, Model
from ...models import MOST_IN_PROCESS, SECONDS_IN_PROCESS, or_abstain
from ...runtime.spill import Spill, forget_pages
from ...sparse import as_dense, blocks
from ...types import Array, Blob, StoredBlob

ROWS_AT_ONCE = 4096
MOST_MEMBERS = 1_000_000
KEPT_OPEN = 64 * 2**20
"""The size of the files whose models stay open between two calls; an open forest takes several times as much."""


class Members(Sequence[Blob]):
    """Models of several parties with the same number of classes. names: their parties', where they are known."""

    def __init__(
        self, blobs: Sequence[Blob], classes: int, ask: AskModel | None = None, names: Sequence[str] = ()
    ) -> None:
        self.blobs, self.classes, self.ask, self.names = tuple(blobs), classes, ask, tuple(names)

    def __len__(self) -> int:
        return len(self.blobs)

    def __getitem__(self, which: Any) -> Any:
        return self.blobs[which]

    def find(self, blob: Any) -> int | None:
        """The index of this very model; None if it is not among the members."""
        return self.blobs.index(blob) if blob in self.blobs else None

    def replaced(self, member: int, blob: Any) -> list[Blob]:
        """The models, with another one in the place of a member."""
        return [*self.blobs[:member], blob, *self.blobs[member + 1 :]]

    def predictions(self, X: Array) -> Iterator[tuple[int, Array]]:
        """Each member's index and probabilities `(rows, classes)`. A row for which it has none is all 0: the member
        abstains there. A member that fails is left out. Both are warned of."""
        for i, values in self._predict(X):
            probabilities = or_abstain(values)
            if missing := int((~probabilities.any(axis=1)).sum()):
                self._warn(
                    i, f"abstains on {missing:,} of {len(X):,} rows, for which its model returns no probabilities"
                )
            yield i, probabilities

    def _predict(self, X: Array) -> Iterator[tuple[int, Array]]:
        opened = {i: model for i, model in self._opened.items() if self._is_quick(model, len(X))}
        dense = as_dense(X) if self._inert else X
        kernels = {i: model for i, model in opened.items() if isinstance(model, KernelModel)}
        for i, scores in zip(kernels, scores_of(list(kernels.values()), dense), strict=True):
            yield i, as_probabilities(scores)
        forests = {i: model for i, model in opened.items() if isinstance(model, ForestModel)}
        yield from zip(forests, predict_many(list(forests.values()), dense), strict=True)
        for i, blob in enumerate(self.blobs):
            if i in kernels or i in forests:
                continue
            try:
                model = self._opened.get(i) or self._open(i)
                quick = model is not None and self._is_quick(model, len(X))
                yield i, model.predict_proba(dense) if model is not None and quick else self._ask_sandbox(blob, X)
            except Spoiled as reason:
                self._warn(i, f"is left out: {reason}")

    def _ask_sandbox(self, blob: Blob, X: Array) -> Array:
        if self.ask is None:
            raise OneBallotError(f"a {blob.format} model only runs in the sandbox; open it with Outcome.load")
        return self.ask(blob, X, classes=self.classes, abstain=True)

    def _is_quick(self, model: Model, rows: int) -> bool:
        """Whether a model is evaluated in this process; without a sandbox every inert one is."""
        return self.ask is None or model.seconds(rows) <= SECONDS_IN_PROCESS

    def _open(self, i: int) -> Model | None:
        """The member, if its format is inert and it is small enough for this process."""
        blob = self.blobs[i]
        if i not in self._inert or (self.ask is not None and blob.size > MOST_IN_PROCESS):
            return None
        return plugins.find("formats", blob.format).load(blob.data, classes=self.classes)  # type: ignore[no-any-return]

    @cached_property
    def _inert(self) -> frozenset[int]:
        formats = {name: plugins.find("formats", name) for name in {blob.format for blob in self.blobs}}
        return frozenset(i for i, blob in enumerate(self.blobs) if formats[blob.format].inert)

    @cached_property
    def _opened(self) -> dict[int, Model]:
        """The first members in inert formats with at most KEPT_OPEN bytes together; others are opened each time."""
        opened, total = {}, 0
        for i in sorted(self._inert):
            total += self.blobs[i].size
            if total > KEPT_OPEN:
                break
            if (model := self._open(i)) is not None:
                opened[i] = model
        return opened

    def _warn(self, i: int, text: str) -> None:
        warnings.warn(f"{self.names[i] if self.names else f'member {i}'} {text}", OneBallotWarning, stacklevel=4)

    def check(self, features: int) -> None:
        """Check every member with its own format."""
        for i, blob in enumerate(self.blobs):
            try:
                plugins.find("formats", blob.format).check(blob.data, classes=self.classes, features=features)
            except Spoiled as reason:
                raise Spoiled(f"member {i}: {reason}") from None


def warn_of_unanswered(rows: int) -> None:
    warnings.warn(
        f"no member of the ensemble has an answer for {rows:,} rows: all classes are equally likely there",
        OneBallotWarning,
        stacklevel=4,
    )


def in_blocks(X: Array) -> Iterator[Array]:
    """X in blocks of rows, so that the members' predictions need little memory; sparse rows may become dense."""
    for i in range(0, len(X), ROWS_AT_ONCE):
        yield from blocks(X[i : i + ROWS_AT_ONCE])


def write_members(blobs: Sequence[Blob], arrays: Mapping[str, Array], name: str) -> Blob:
    """A safetensors file with the bytes of these models and other arrays; on disk, if some of the models are."""
    from safetensors.numpy import save

    names = sorted({blob.format for blob in blobs})
    stored = any(isinstance(blob, StoredBlob) for blob in blobs)
    content = b"" if stored else b"".join(blob.data for blob in blobs)
    whole = {
        "bytes": np.frombuffer(content, dtype=np.uint8),
        "ends": np.cumsum([blob.size for blob in blobs], dtype=np.int64),
        "formats": np.array([names.index(blob.format) for blob in blobs], dtype=np.int64),
        **arrays,
    }
    ordered = {key: np.ascontiguousarray(array) for key, array in whole.items()}
    data = save(ordered, metadata={"formats": json.dumps(names)})
    if not stored:
        return Blob(name, data)
    before, after = _make_room(data, sum(blob.size for blob in blobs))
    parts = (chunk for blob in blobs for chunk in blob.chunks())
    return Spill().write(name, itertools.chain([before], parts, [after]))


def _make_room(data: bytes, size: int) -> tuple[bytes, bytes]:
    """A safetensors file whose empty array `bytes` becomes so many bytes: what comes before these, and after them."""
    length = int.from_bytes(data[:8], "little")
    header, body = json.loads(data[8 : 8 + length]), data[8 + length :]
    place, follows = header["bytes"]["data_offsets"][0], False
    for key, entry in header.items():  # in the order of the arrays
        if follows:
            entry["data_offsets"] = [offset + size for offset in entry["data_offsets"]]
        if key == "bytes":
            entry["shape"], entry["data_offsets"], follows = [size], [place, place + size], True
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + body[:place], body[place:]


def read_members(data: bytes | memoryview, known: frozenset[str]) -> tuple[list[Blob], Arrays]:
    """The models in such a file, which must be in one of the known formats, and its other arrays."""
    metadata, arrays = read_arrays(data)
    if not {"bytes", "ends", "formats"} <= arrays.keys():
        raise Spoiled(f"an ensemble with the arrays {', '.join(sorted(arrays))[:200]}: expected other arrays")
    names, content, ends, formats = _format_names(metadata, known), arrays["bytes"], arrays["ends"], arrays["formats"]
    expect("bytes", content, np.uint8, (content.size,))
    expect("ends", ends, np.int64, (ends.size,))
    expect("formats", formats, np.int64, (ends.size,))
    if not 0 < ends.size <= MOST_MEMBERS:
        raise Spoiled(f"{ends.size:,} members: expected 1 to {MOST_MEMBERS:,}")
    starts = np.concatenate([[0], ends[:-1]])
    if (starts > ends).any() or starts.min() < 0 or content.size != ends[-1]:
        raise Spoiled("ends: expected the members one after the other")
    if not ((formats >= 0) & (formats < len(names))).all():
        raise Spoiled(f"formats: expected 0 to {len(names) - 1}")
    spans = zip(formats.tolist(), starts.tolist(), ends.tolist(), strict=True)
    others = {name: array for name, array in arrays.items() if name not in ("bytes", "ends", "formats")}
    return [_member(names[format], data, content[start:end]) for format, start, end in spans], others


def _member(format: str, data: bytes | memoryview, content: Array) -> Blob:
    """A part of a file. If the file is mapped, it is read each time."""
    if isinstance(data, bytes):
        return Blob(format, content.tobytes())

    def read(start: int, count: int) -> bytes:
        part = content[start : start + count].tobytes()
        forget_pages(data)
        return part

    return StoredBlob(format, len(content), read, lambda: memoryview(read(0, len(content))))


def expect(name: str, array: Array, dtype: npt.DTypeLike, shape: tuple[int, ...]) -> None:
    if array.dtype != dtype or array.shape != shape:
        raise Spoiled(f"{name} is {array.dtype} {array.shape}: expected {np.dtype(dtype)} {shape}")


def _format_names(metadata: Mapping[str, str], known: frozenset[str]) -> list[str]:
    try:
        names: Any = json.loads(metadata.get("formats", ""))
    except (ValueError, TypeError, RecursionError):
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) and name in known for name in names):
        raise Spoiled(f"the members of an ensemble must be of the formats {', '.join(sorted(known))}")
    return names
