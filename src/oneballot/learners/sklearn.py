"""Any scikit-learn classifier, or a pipeline that ends in one, as a learner."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar

import numpy as np

from ..errors import ElectionError
from ..formats.skops import CLASSIFIERS, PARTS, SklearnModel
from ..interfaces import Model, Models
from ..settings import settings
from ..types import Array, Task
from ._grow import can_grow, grow
from ._training import spread

STAY: dict[str, dict[str, tuple[Any, ...]]] = {
    "SGDClassifier": {"loss": ("squared_error", "huber", "epsilon_insensitive", "squared_epsilon_insensitive")},
    "SimpleImputer": {"add_indicator": (True,)},
}
"""Values with which a model of an allowed kind has parts that `formats/skops.py` refuses."""


@settings
class Sklearn:
    """A scikit-learn estimator by name and parameters, or an (unfitted) instance, which is taken apart into these.

    A parameter that is itself an estimator is written `{"estimator": NAME, "params": {...}}`, and so are the `steps`
    of a Pipeline.
    """

    name: ClassVar[str] = "sklearn"
    estimator: Any = "RandomForestClassifier"
    params: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.estimator, str):
            described = describe(self.estimator)
            object.__setattr__(self, "estimator", described["estimator"])
            object.__setattr__(self, "params", {**described["params"], **self.params})
        plain = {k: v.item() if isinstance(v, np.generic) else v for k, v in self.params.items()}
        object.__setattr__(self, "params", plain)

    @property
    def provides(self) -> frozenset[str]:
        """Soft labels are learned as weighted rows, which not every estimator takes."""
        soft = _weight_name(build(self.estimator, self.params)) is not None
        return frozenset({"probabilities", "scores", "soft"} if soft else {"probabilities", "scores"})

    def check(self) -> None:
        """Build it once, so that a wrong name or parameter is found before any training."""
        final = _last(build(self.estimator, self.params))
        from sklearn.base import is_classifier

        if not is_classifier(final):
            raise ElectionError(f"learner sklearn: {type(final).__name__} is not a classifier")

    def fit_many(self, X: Array, tasks: Sequence[Task], classes: int, *, keep: bool = True) -> Models:
        threads = can_grow(build(self.estimator, self.params))  # growing releases the interpreter's lock
        return spread(self, X, tasks, classes, keep, self.estimator, threads=threads)

    def fit_one(self, X: Array, y: Array, weight: Array | None, seed: int, classes: int) -> Model:
        model = build(self.estimator, self.params)
        if seeds := [p for p in model.get_params() if p == "random_state" or p.endswith("__random_state")]:
            model.set_params(**dict.fromkeys(seeds, seed))
        X = np.ascontiguousarray(X.reshape(len(X), -1), dtype=np.float32)
        if weight is None and can_grow(model):
            grow(model, X, y)
        else:
            model.fit(X, y, **_weighted(model, weight, self.estimator))
        return SklearnModel(model, classes)


def build(estimator: str, params: Mapping[str, Any]) -> Any:
    """The estimator that a name and parameters describe."""
    if not isinstance(params, Mapping):
        raise ElectionError(f"learner sklearn: params of {estimator} must be names with values, not {params!r}")
    made = {key: _build_value(value) for key, value in params.items()}
    if estimator == "Pipeline":
        return _build_pipeline(made)
    kind = _find(estimator)
    known = inspect.signature(kind).parameters
    if unknown := sorted(made.keys() - known.keys()):
        raise ElectionError(f"learner sklearn: {estimator} has no parameter {unknown}; it has {', '.join(known)}")
    for key, value in made.items():
        if isinstance(value, list) and isinstance(known[key].default, tuple):  # TOML and JSON have no tuples
            made[key] = tuple(value)
        if value in STAY.get(estimator, {}).get(key, ()):
            raise ElectionError(f"learner sklearn: {estimator}({key}={value!r}) gives models that cannot travel")
    if made.get("categorical_features", "from_dtype") not in ("from_dtype", None):
        raise ElectionError(f"learner sklearn: {estimator}(categorical_features=…) gives models that cannot travel")
    model = kind(**made)
    try:
        model._validate_params()
    except ValueError as error:
        raise ElectionError(f"learner sklearn: {error}") from None
    return model


def _build_pipeline(params: Mapping[str, Any]) -> Any:
    from sklearn.pipeline import make_pipeline

    steps = params.get("steps")
    if not isinstance(steps, list) or not steps or not all(hasattr(s, "get_params") for s in steps) or len(params) > 1:
        raise ElectionError('learner sklearn: params of a Pipeline are steps = [{ estimator = "…", params = {…} }, …]')
    return make_pipeline(*steps)


def describe(estimator: Any) -> dict[str, Any]:
    """The name of an estimator and those of its parameters that are not the default."""
    kind = type(estimator)
    if kind.__module__.split(".")[0] != "sklearn":
        raise ElectionError(
            f"{kind.__module__}.{kind.__name__} is not of scikit-learn, and a tally only loads models whose format is "
            "known to be safe. Write a learner for it: see docs/extending.md"
        )
    if hasattr(estimator, "steps"):
        steps = [step for _, step in estimator.steps if not isinstance(step, str)]  # "passthrough" does nothing
        return {"estimator": "Pipeline", "params": {"steps": [describe(step) for step in steps]}}
    usual = {name: p.default for name, p in inspect.signature(kind).parameters.items()}
    given = {k: v for k, v in estimator.get_params(deep=False).items()
             if v is not usual[k] and (isinstance(v, np.ndarray) or v != usual[k])}  # fmt: skip
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
    if isinstance(value, list | tuple | np.ndarray):
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
    if (argument := _weight_name(model)) is None:
        raise ElectionError(f"learner sklearn: {name} cannot weigh its rows, as soft labels need")
    return {argument: weight}


def _weight_name(model: Any) -> str | None:
    """What `fit` calls the weights of rows; none where it takes none. In a Pipeline they are its last step's."""
    from sklearn.utils.validation import has_fit_parameter

    if hasattr(model, "steps"):
        name, last = model.steps[-1]
        inner = _weight_name(last)
        return inner and f"{name}__{inner}"
    return "sample_weight" if has_fit_parameter(model, "sample_weight") else None


def _last(model: Any) -> Any:
    return _last(model.steps[-1][1]) if hasattr(model, "steps") else model


plugin = Sklearn
