"""XGBoost models as UBJSON, XGBoost's own binary format, with the class numbers of the outputs as an attribute.

XGBoost trusts its files: a split on a missing column reads foreign memory, and a cycle of nodes never ends. So `check`
reads the file itself and accepts only what `save_raw` writes for plain boosted trees.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csr_matrix

from ..errors import MissingExtra, Spoiled
from ..interfaces import Format
from ..sparse import as_dense
from ..types import Array, Blob
from ._common import BoosterModel, check_below, check_finite, check_tree, read_classes
from ._ubjson_reader import read_ubjson

DELETED = 2**31 - 1  # the split index of a pruned node
EMPTY = ("categories", "categories_nodes", "categories_segments", "categories_sizes")
NUMBERS = ("base_weights", "loss_changes", "split_conditions", "sum_hessian")
SPARSE = "oneballot_sparse"
BASE_SCORE = re.compile(r"\[?(-?[0-9.]+(E[+-]?[0-9]+)?)(,-?[0-9.]+(E[+-]?[0-9]+)?)*\]?", re.IGNORECASE)


class XGBoostModel(BoosterModel):
    """A model that was trained on sparse rows says so, and also predicts for dense rows as if they were sparse.

    In sparse rows XGBoost treats zeros as missing values, in dense rows as zeros.
    """

    @property
    def sparse(self) -> bool:
        return bool(self.booster.attr(SPARSE) == "1")

    def dump(self) -> Blob:
        self.booster.set_attr(oneballot_classes=",".join(map(str, self.seen)))
        return Blob(UBJSON.name, bytes(self.booster.save_raw("ubj")))

    def _output(self, X: Array, margin: bool) -> Array:
        self.booster.set_param({"nthread": 1})
        output = "margin" if margin else "value"
        rows = csr_matrix(X) if self.sparse else as_dense(X)
        values = self.booster.inplace_predict(rows, predict_type=output, validate_features=False)
        return np.asarray(values, dtype=np.float64)


class UBJSON(Format):
    name: ClassVar[str] = "ubjson"
    inert: ClassVar[bool] = False
    libraries: ClassVar[tuple[str, ...]] = ("xgboost",)
    sparse: ClassVar[bool] = True

    @staticmethod
    def prepare() -> Any:
        try:
            import xgboost
        except ImportError:
            raise MissingExtra("Training or loading XGBoost models", "xgboost") from None
        return xgboost

    @staticmethod
    def check(data: bytes, *, classes: int, features: int) -> None:
        try:
            _check_learner(read_ubjson(data)["learner"], classes, features)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise Spoiled(f"not an XGBoost model of boosted trees: {type(error).__name__} {error}") from None

    @staticmethod
    def load(data: bytes, *, classes: int) -> XGBoostModel:
        xgboost = UBJSON.prepare()
        booster = xgboost.Booster({"nthread": 1})
        booster.load_model(bytearray(data))
        return XGBoostModel(booster, read_classes(booster.attr("oneballot_classes") or "", classes), classes)


def _check_learner(learner: Any, classes: int, features: int) -> None:
    seen = read_classes(learner["attributes"]["oneballot_classes"], classes)
    if learner["attributes"].get(SPARSE, "1") != "1":
        raise Spoiled(f"the attribute {SPARSE} is not 1")
    groups = 1 if len(seen) == 2 else len(seen)
    objective = "binary:logistic" if groups == 1 else "multi:softprob"
    settings = learner["learner_model_param"]
    _expect("objective", learner["objective"]["name"], objective)
    _expect("num_feature", settings["num_feature"], str(features))
    _expect("num_class", settings["num_class"], str(0 if groups == 1 else groups))
    _expect("num_target", settings.get("num_target", "1"), "1")
    if groups > 1:
        _expect("num_class", learner["objective"]["softmax_multiclass_param"]["num_class"], str(groups))
    base = settings["base_score"]
    if not BASE_SCORE.fullmatch(base) or base.count(",") not in (0, groups - 1):
        raise Spoiled(f"base_score does not have 1 or {groups} numbers")
    for key in ("feature_names", "feature_types"):
        if len(learner[key]) not in (0, features) or not all(isinstance(text, str) for text in learner[key]):
            raise Spoiled(f"{key} has {len(learner[key])} entries; expected none or {features}")
    if "c" in learner["feature_types"]:
        raise Spoiled("there are categorical columns; expected numeric ones only")
    _expect("booster", learner["gradient_booster"]["name"], "gbtree")
    _check_model(learner["gradient_booster"]["model"], groups, features)


def _check_model(model: Any, groups: int, features: int) -> None:
    trees = model["trees"]
    _expect("num_trees", model["gbtree_model_param"]["num_trees"], str(len(trees)))
    if any(len(part) for part in model.get("cats", {}).values()):
        raise Spoiled("there are categories; expected numeric columns only")
    info, starts = _integers(model["tree_info"]), _integers(model["iteration_indptr"])
    if len(info) != len(trees):
        raise Spoiled(f"tree_info has {len(info)} entries for {len(trees)} trees")
    check_below(info, groups, "tree_info")
    if not len(starts) or starts[0] != 0 or starts[-1] != len(trees) or (np.diff(starts) < 0).any():
        raise Spoiled(f"iteration_indptr does not increase from 0 to {len(trees)}")
    for number, tree in enumerate(trees):
        _check_one_tree(tree, features, f"tree {number}")


def _check_one_tree(tree: Any, features: int, where: str) -> None:
    nodes = len(tree["left_children"])
    settings = tree["tree_param"]
    _expect(f"num_nodes of {where}", settings["num_nodes"], str(nodes))
    _expect(f"num_feature of {where}", settings["num_feature"], str(features))
    if settings["size_leaf_vector"] not in ("0", "1"):
        raise Spoiled(f"{where} has leaves with several outputs; expected one")
    for key in EMPTY:
        if len(tree[key]):
            raise Spoiled(f"{where} has categorical splits; expected numeric ones only")
    arrays = {key: _integers(tree[key]) for key in ("left_children", "right_children", "parents", "split_indices")}
    arrays |= {key: np.asarray(tree[key], dtype=np.float64) for key in (*NUMBERS, "default_left", "split_type")}
    for key, values in arrays.items():
        if values.shape != (nodes,):
            raise Spoiled(f"{key} of {where} has shape {values.shape} for {nodes} nodes")
        check_finite(values, f"{key} of {where}")
    if arrays["split_type"].any() or not np.isin(arrays["default_left"], (0, 1)).all():
        raise Spoiled(f"{where} has splits of an unknown type")
    left, right, split = arrays["left_children"], arrays["right_children"], arrays["split_indices"]
    deleted = split == DELETED
    _expect(f"num_deleted of {where}", settings["num_deleted"], str(int(deleted.sum())))
    if deleted[0] or (left[deleted] != -1).any():
        raise Spoiled(f"{where} has a pruned node with children")
    check_tree(left, right, where, absent=deleted)
    check_below(split[~deleted], features, f"split_indices of {where}")
    inner = np.flatnonzero(left != -1)
    if (arrays["parents"][left[inner]] != inner).any() or (arrays["parents"][right[inner]] != inner).any():
        raise Spoiled(f"parents of {where} do not match its children")


def _integers(values: Any) -> Array:
    array = np.asarray(values)
    if array.size and array.dtype.kind not in "iu":
        raise Spoiled("an index is not an integer")
    return array.astype(np.int64)


def _expect(name: str, value: Any, expected: str) -> None:
    if value != expected:
        raise Spoiled(f"{name} is {str(value)[:40]!r}; expected {expected!r}")


plugin = UBJSON
