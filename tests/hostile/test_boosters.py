"""Hostile XGBoost and LightGBM models are refused, and the sandbox contains those that `check` has not seen."""

import re
import struct

import numpy as np
import pytest

from oneballot.errors import Spoiled
from oneballot.formats.lightgbm_text import LightGBMModel
from oneballot.formats.safetensors import ConstantModel
from oneballot.formats.ubjson import XGBoostModel
from oneballot.types import Blob

from .models import CLASSES, FAR, HostileModels, X, Y, ask

lightgbm = pytest.importorskip("lightgbm")
xgboost = pytest.importorskip("xgboost")

XGBOOST = XGBoostModel(
    xgboost.train({"objective": "multi:softprob", "num_class": 3, "nthread": 1}, xgboost.DMatrix(X, Y), 3), range(3), 3
).dump()
LIGHTGBM = LightGBMModel(
    lightgbm.train(
        {"objective": "multiclass", "num_class": 3, "verbose": -1, "num_threads": 1, "num_leaves": 5},
        lightgbm.Dataset(X, Y),
        3,
    ),
    range(3),
    3,
).dump()
GOOD = {"xgboost": XGBOOST, "lightgbm": LIGHTGBM, "constant": ConstantModel(np.eye(3)[0]).dump()}


def with_xgboost(key, position, value, code="i"):
    """Change one number in the first array of this name."""
    data = bytearray(XGBOOST.data)
    start = data.index(key.encode()) + len(key)
    if data[start : start + 3] == b"[#L":  # each number has its type before it
        data[start + 12 + 2 * position] = value
    else:
        struct.pack_into(f">{code}", data, start + 13 + position * struct.calcsize(code), value)
    return Blob("ubjson", bytes(data))


def with_lightgbm(key, position, value):
    """Change one number in the first line of this name, and correct the sizes."""
    head, body = LIGHTGBM.data.decode().split("\n\n", 1)
    line = re.search(rf"^{key}=(.*)$", body, re.MULTILINE)
    numbers = line[1].split(" ")
    numbers[position] = str(value)
    body = body[: line.start(1)] + " ".join(numbers) + body[line.end(1) :]
    sizes = [len(tree) for tree in re.findall(r"Tree=.*?\n\n\n", body, re.DOTALL)]
    head = re.sub(r"tree_sizes=.*", f"tree_sizes={' '.join(map(str, sizes))}", head)
    return Blob("lightgbm-text", f"{head}\n\n{body}".encode())


def ubjson(text):
    return Blob("ubjson", text)


INDICES = {
    **{
        f"xgboost {key}[{position}]={value}": with_xgboost(key, position, value)
        for key, position, value in [
            ("left_children", 0, FAR),
            ("left_children", 0, 0),
            ("left_children", 1, 0),
            ("right_children", 0, -9),
            ("right_children", 0, 1),
            ("split_indices", 0, FAR),
            ("split_indices", 0, -4),
            ("split_indices", 0, 2**31 - 1),
            ("parents", 1, 5),
            ("tree_info", 0, 77),
            ("iteration_indptr", 1, 99),
        ]
    },
    "xgboost condition": with_xgboost("split_conditions", 0, float("nan"), "f"),
    **{
        f"lightgbm {key}[{position}]={value}": with_lightgbm(key, position, value)
        for key, position, value in [
            ("left_child", 0, 999_999),
            ("left_child", 0, 0),
            ("right_child", 0, -999_999),
            ("left_child", 1, 0),
            ("split_feature", 0, 999_999),
            ("split_feature", 0, -2),
            ("threshold", 0, "nan"),
            ("leaf_value", 0, "1e999"),
            ("leaf_value", 0, "1_0"),
            ("decision_type", 0, 1),
            ("num_leaves", 0, 5000),
            ("num_cat", 0, 1),
            ("is_linear", 0, 1),
        ]
    },
}
FILES = {
    "ubjson empty": ubjson(b""),
    "ubjson huge text": ubjson(b"{L" + b"\x7f" * 8),
    "ubjson huge array": ubjson(b"[#L" + b"\x7f" * 8),
    "ubjson huge typed array": ubjson(b"[$L#L" + b"\x10" + b"\0" * 7),
    "ubjson negative length": ubjson(b"[$L#L" + b"\xff" * 8),
    "ubjson nested": ubjson(b"[#L\0\0\0\0\0\0\0\1" * 100_000),
    "ubjson trailing": ubjson(XGBOOST.data + b"Z"),
    "ubjson other objective": ubjson(XGBOOST.data.replace(b"multi:softprob", b"multi:softrank")),
    "lightgbm end": Blob("lightgbm-text", LIGHTGBM.data + b"\nparameters:\n[data: /etc/passwd]\nend of parameters\n"),
    "lightgbm sizes": Blob("lightgbm-text", re.sub(rb"tree_sizes=\d", b"tree_sizes=9", LIGHTGBM.data)),
    "unknown format": Blob("pickle", b"cos\nsystem\n(S'true'\ntR."),
    "format with a path": Blob("../formats/skops", XGBOOST.data),
    "wrong format": Blob("ubjson", LIGHTGBM.data),
}


class TestBoosters(HostileModels):
    GOOD, HOSTILE = GOOD, INDICES | FILES


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("xgboost left_children[0]=1000000000", "signal 11"),
        ("xgboost left_children[0]=0", "signal 11"),
        ("xgboost split_indices[0]=1000000000", "signal 11"),
        ("xgboost tree_info[0]=77", "signal"),
        ("lightgbm left_child[0]=0", "took longer than 3 s"),
        ("lightgbm num_leaves[0]=5000", "signal 6"),
    ],
)
def test_the_sandbox_contains_models_that_were_not_checked(sandbox, name, reason):
    with pytest.raises(Spoiled, match=reason):
        sandbox._ask_worker(INDICES[name], X, CLASSES)
    for blob in GOOD.values():
        ask(sandbox, blob)


def test_check_is_needed_because_not_every_read_of_foreign_memory_crashes(sandbox):
    """LightGBM returns values from memory outside the model, which the sandbox cannot notice."""
    blob = INDICES["lightgbm right_child[0]=-999999"]
    with pytest.raises(Spoiled, match="neither a split nor a leaf"):
        ask(sandbox, blob)
