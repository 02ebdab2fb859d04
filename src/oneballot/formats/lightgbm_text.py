"""LightGBM models as LightGBM's own text, after one line with the class numbers of the outputs.

Only the header and the trees are written: the parameters that LightGBM appends name the party's files and machines, and
prediction does not need them. LightGBM trusts its files, so `check` reads every tree itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_matrix

from ..errors import MissingExtra, Spoiled
from ..interfaces import Format
from ..sparse import is_sparse
from ..types import Array, Blob
from ._common import BoosterModel, check_below, check_finite, check_tree, read_classes

FIRST = "oneballot classes="
END = "end of trees\n"
HEADER = {"version", "num_class", "num_tree_per_iteration", "label_index", "max_feature_idx", "objective"}
HEADER |= {"feature_names", "feature_infos", "tree_sizes"}
PER_SPLIT = {"split_feature", "split_gain", "threshold", "decision_type", "left_child", "right_child"}
PER_SPLIT |= {"internal_value", "internal_weight", "internal_count"}
PER_LEAF = ("leaf_value", "leaf_weight", "leaf_count")
SINGLE = ("num_leaves", "num_cat", "is_linear", "shrinkage")
INTEGER = re.compile(r"-?[0-9]{1,9}")
LEAF_COUNTS = re.compile(rb"^leaf_count=([0-9 ]+)$", re.MULTILINE)
THRESHOLD = re.compile(r"-?inf|-?[0-9]+(\.[0-9]*)?(e[+-]?[0-9]{1,3})?")  # inf separates missing values from all others
NUMBER = re.compile(r"-?[0-9]+(\.[0-9]*)?(e[+-]?[0-9]{1,3})?")
WHOLE = ("split_feature", "decision_type", "left_child", "right_child", "num_leaves", "num_cat", "is_linear")
PATTERNS = {**dict.fromkeys(WHOLE, INTEGER), "threshold": THRESHOLD}


class LightGBMModel(BoosterModel):
    def _output(self, X: Array, margin: bool) -> Array:
        rows = csr_matrix(X) if is_sparse(X) else X  # it converts other types with a warning
        return np.asarray(self.booster.predict(rows, num_threads=1, raw_score=margin))

    def dump(self) -> Blob:
        text = self.booster.model_to_string()
        text = text[: text.index(END)] + END
        return Blob(LightGBMText.name, f"{FIRST}{','.join(map(str, self.seen))}\n{text}".encode())


class LightGBMText(Format):
    name: ClassVar[str] = "lightgbm-text"
    inert: ClassVar[bool] = False
    libraries: ClassVar[tuple[str, ...]] = ("lightgbm",)
    sparse: ClassVar[bool] = True

    @staticmethod
    def prepare() -> Any:
        try:
            import lightgbm
        except ImportError:
            raise MissingExtra("Training or loading LightGBM models", "lightgbm") from None
        return lightgbm

    @staticmethod
    def check(data: bytes, *, classes: int, features: int) -> None:
        for _ in read_trees(data, classes=classes, features=features):
            pass

    @staticmethod
    def smallest_leaf(data: bytes) -> int | None:
        counts = [int(count) for line in LEAF_COUNTS.findall(data) for count in line.split()]
        return min(counts, default=None)

    @staticmethod
    def load(data: bytes, *, classes: int) -> LightGBMModel:
        lightgbm = LightGBMText.prepare()
        seen, text = _open(data, classes)
        return LightGBMModel(lightgbm.Booster(model_str=text), seen, classes)


def read_trees(data: bytes, *, classes: int, features: int) -> Iterator[Mapping[str, Array]]:
    """Check the file and yield the arrays of each tree. Children are numbered by `_renumber`."""
    seen, text = _open(data, classes)
    head, blank, body = text.partition("\n\n")
    if not blank or not head.startswith("tree\n") or not body.endswith(END):
        raise Spoiled(f"not a LightGBM model; expected 'tree', a header, trees and {END.strip()!r} at the end")
    header = _read_lines(head.removeprefix("tree\n"), "the header")
    sizes = _check_header(header, seen, features)
    body = body.removesuffix(END)
    if sum(sizes) != len(body) or len(sizes) % (1 if len(seen) == 2 else len(seen)):
        raise Spoiled(f"tree_sizes give {sum(sizes)} characters in {len(sizes)} trees; there are {len(body)}")
    start = 0
    for number, size in enumerate(sizes):
        yield _read_one_tree(body[start : start + size], number, features)
        start += size


def read_seen(data: bytes, classes: int) -> Array:
    """The class numbers of the outputs."""
    return _open(data, classes)[0]


def _open(data: bytes, classes: int) -> tuple[Array, str]:
    first, _, text = data.partition(b"\n")
    if not data.isascii() or b"\0" in data or b"\r" in data or not first.startswith(FIRST.encode()):
        raise Spoiled(f"not a LightGBM model; expected ASCII text that begins with {FIRST!r} and class numbers")
    return read_classes(first.decode().removeprefix(FIRST), classes), text.decode()


def _read_lines(text: str, where: str) -> dict[str, str]:
    out: dict[str, str] = {}
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if not equals or key in out:
            raise Spoiled(f"{where} has a line that is not key=value, or a repeated key: {line[:40]!r}")
        out[key] = value
    return out


def _check_header(header: dict[str, str], seen: Array, features: int) -> list[int]:
    if header.keys() != HEADER:
        raise Spoiled(f"the header lacks keys or has unknown ones: {', '.join(sorted(header.keys() ^ HEADER))[:80]}")
    outputs = 1 if len(seen) == 2 else len(seen)
    expected = {
        "version": "v4",
        "num_class": str(outputs),
        "num_tree_per_iteration": str(outputs),
        "label_index": "0",
        "max_feature_idx": str(features - 1),
        "objective": "binary sigmoid:1" if outputs == 1 else f"multiclass num_class:{outputs}",
    }
    for key, value in expected.items():
        if header[key] != value:
            raise Spoiled(f"{key} is {header[key][:40]!r}; expected {value!r}")
    for key in ("feature_names", "feature_infos"):
        if len(header[key].split(" ")) != features:
            raise Spoiled(f"{key} has {len(header[key].split(' '))} entries; expected {features}")
    return [int(size) for size in _numbers(header["tree_sizes"], INTEGER, "tree_sizes")]


def _read_one_tree(text: str, number: int, features: int) -> Mapping[str, Array]:
    where = f"tree {number}"
    if not text.startswith(f"Tree={number}\n") or not text.endswith("\n\n\n"):
        raise Spoiled(f"{where} does not start and end as tree_sizes says")
    lines = _read_lines(text[len(f"Tree={number}\n") : -2], where)
    if lines.keys() != {*PER_SPLIT, *PER_LEAF, *SINGLE}:
        raise Spoiled(f"{where} has missing or unknown lines; expected numeric splits and constant leaves")
    values = {key: _numbers(text, PATTERNS.get(key, NUMBER), f"{key} of {where}") for key, text in lines.items()}
    for key in SINGLE:
        if len(values[key]) != 1:
            raise Spoiled(f"{key} of {where} is not one number")
    leaves = int(values["num_leaves"][0])
    if leaves < 1 or values["num_cat"][0] or values["is_linear"][0]:
        raise Spoiled(f"{where} has no leaves, categorical splits or linear leaves; expected numeric splits")
    for key in (*PER_SPLIT, *PER_LEAF):
        expected = leaves if key in PER_LEAF else leaves - 1
        if len(values[key]) != expected and not (leaves == 1 and key != "leaf_value" and not len(values[key])):
            raise Spoiled(f"{key} of {where} has {len(values[key])} entries; expected {expected}")
    check_below(values["split_feature"], features, f"split_feature of {where}")
    if not np.isin(values["decision_type"], (0, 2, 4, 6, 8, 10)).all():
        raise Spoiled(f"{where} has splits of an unknown type")
    if leaves > 1:
        values |= {side: _renumber(values[side], leaves, where) for side in ("left_child", "right_child")}
        check_tree(values["left_child"], values["right_child"], where)
    return values


def _renumber(children: Array, leaves: int, where: str) -> Array:
    """Number splits from 0 to leaves - 2, and then leaves; LightGBM writes leaf i as ~i."""
    if (children < -leaves).any() or (children > leaves - 2).any():
        raise Spoiled(f"{where} has a child that is neither a split nor a leaf")
    return np.concatenate([np.where(children < 0, leaves - 2 - children, children), np.full(leaves, -1)])


def _numbers(text: str, pattern: re.Pattern[str], where: str) -> Array:
    parts = text.split(" ") if text else []
    if not all(map(pattern.fullmatch, parts)):
        raise Spoiled(f"{where} is not {'integers' if pattern is INTEGER else 'numbers'} separated by one space")
    values = np.array(parts, dtype=np.str_).astype(np.float64) if parts else np.zeros(0)
    if pattern is not THRESHOLD:
        check_finite(values, where)
    return values.astype(np.int64) if pattern is INTEGER else values


plugin = LightGBMText
