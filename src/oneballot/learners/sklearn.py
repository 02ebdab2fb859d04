"""Any scikit-learn classifier, or a pipeline that ends in one, as a learner."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from ..core import Array, Model, Models, Task
from ..errors import ElectionError
from ..formats.skops import CLASSIFIERS, PARTS, SklearnModel
from ._spread import spread


@dataclass(frozen=True)
class Sklearn:
    """A scikit-learn estimator by name and parameters, or an (unfitted) instance, which is taken apart into these.

    A parameter that is itself an estimator is written `{"estimator": NAME, "params": {...}}`, and so are the `steps`
    of a Pipeline.
    """

    name: ClassVar[str] = "sklearn"
    gives: ClassVar[frozenset[str]] = frozenset({"probabilities", "scores", "soft"})

    estimator: Any = "RandomForestClassifier"
    params: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.estimator, str):
            described = describe(self.estimator)
            object.__setattr__(self, "estimator", described["estimator"])
            object.__setattr__(self, "params", {**described["params"], **self.params})

    def check(self) -> None:
        """Build it once, so that a wrong name or parameter is found before any training."""
        model = build(self.estimator, self.params)
        final = model.steps[-1][1] if hasattr(model, "steps") else model
        from sklearn.base import is_classifier

        if not is_classifier(final):
            raise ElectionError(f"learner sklearn: {type(final).__name__} is not a classifier")

    def fit_many(self, X: Array, tasks: Sequence[Task], classes: int, *, keep: bool = True) -> Models:
        return spread(self, X, tasks, classes, keep, self.estimator)

    def fit_one(self, X: Array, y: Array, weight: Array | None, seed: int, classes: int) -> Model:
        model = build(self.estimator, self.params)
        if seeds := [p for p in model.get_params() if p == "random_state" or p.endswith("__random_state")]:
            model.set_params(**dict.fromkeys(seeds, seed))
        X = np.ascontiguousarray(X.reshape(len(X), -1), dtype=np.float32)
        model.fit(X, y, **_weighted(model, weight, self.estimator))
        return SklearnModel(model, classes)


def build(estimator: str, params: Mapping[str, Any]) -> Any:
    """The estimator that a name and parameters describe."""
    made = {key: _build_value(value) for key, value in params.items()}
    if estimator == "Pipeline":
        from sklearn.pipeline import make_pipeline

        return make_pipeline(*made["steps"])
    kind = _find(estimator)
    known = inspect.signature(kind).parameters
    if unknown := sorted(made.keys() - known.keys()):
        raise ElectionError(f"learner sklearn: {estimator} has no parameter {unknown}; it has {', '.join(known)}")
    return kind(**made)


def describe(estimator: Any) -> dict[str, Any]:
    """The name of an estimator and those of its parameters that are not the default."""
    kind = type(estimator)
    if kind.__module__.split(".")[0] != "sklearn":
        raise ElectionError(
            f"{kind.__module__}.{kind.__name__} is not of scikit-learn, and a tally only loads models whose format is "
            "known to be safe. Write a learner for it: see docs/extending.md"
        )
    if hasattr(estimator, "steps"):
        return {"estimator": "Pipeline", "params": {"steps": [describe(step) for _, step in estimator.steps]}}
    usual = {name: p.default for name, p in inspect.signature(kind).parameters.items()}
    given = {k: v for k, v in estimator.get_params(deep=False).items() if v is not usual[k] and v != usual[k]}
    return {"estimator": kind.__name__, "params": {k: _describe_value(k, v, kind) for k, v in given.items()}}


def _build_value(value: Any) -> Any:
    if isinstance(value, Mapping) and "estimator" in value:
        return build(value["estimator"], value.get("params", {}))
    return [_build_value(v) for v in value] if isinstance(value, list) else value


def _describe_value(name: str, value: Any, kind: type) -> Any:
    if hasattr(value, "get_params"):
        return describe(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list | tuple):
        return [_describe_value(name, v, kind) for v in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise ElectionError(f"{kind.__name__}({name}={value!r}) cannot be written into an election: use a number or a name")


def _find(name: str) -> Any:
    """The class, if models of it can travel: the ones whose files can be checked."""
    for module, names in (*CLASSIFIERS.items(), *PARTS.items()):
        if name in names.split() and not name.startswith("_"):
            return getattr(importlib.import_module(module), name)
    known = ", ".join(sorted(n for names in CLASSIFIERS.values() for n in names.split()))
    raise ElectionError(f"learner sklearn: {name!r} cannot be used; the classifiers that can are {known}")


def _weighted(model: Any, weight: Array | None, name: str) -> dict[str, Array]:
    if weight is None:
        return {}
    from sklearn.utils.validation import has_fit_parameter

    last, prefix = (model.steps[-1][1], f"{model.steps[-1][0]}__") if hasattr(model, "steps") else (model, "")
    if not has_fit_parameter(last, "sample_weight"):
        raise ElectionError(f"learner sklearn: {name} cannot weigh its rows, as soft labels need")
    return {f"{prefix}sample_weight": weight}


offers = Sklearn
