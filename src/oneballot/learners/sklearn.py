"""Any scikit-learn classifier, or a pipeline that ends in one, as a learner."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar

import numpy as np

from ..errors import ElectionError
from ..formats._sklearn_checks import parts
from ..formats.forest import ForestFormat, as_forest
from ..formats.skops import CLASSIFIERS, PARTS, SklearnModel, estimator_takes_sparse
from ..interfaces import Learner, Model, Models
from ..settings import settings
from ..sparse import is_sparse
from ..types import Array, Task
from ._grow import can_grow, grow
from ._training import fit_each, threads_of_a_model

REFUSED: dict[str, dict[str, tuple[Any, ...]]] = {
    "SGDClassifier": {"loss": ("squared_error", "huber", "epsilon_insensitive", "squared_epsilon_insensitive")},
    "SimpleImputer": {"add_indicator": (True,)},
}
"""Values of parameters that give an allowed estimator parts which `formats/skops.py` refuses."""
HOLD_ROWS = frozenset({"KNeighborsClassifier", "NuSVC", "SVC"})
"""Estimators whose models hold training rows as they are."""
AS_FOREST = "HistGradientBoostingClassifier"
"""Travels as plain trees, an eighth of its bytes as skops; the sandbox is not needed to ask it."""


@settings
class Sklearn(Learner):
    """A scikit-learn estimator, given as a name and parameters or as an unfitted instance.

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
        """Soft labels are trained as weighted rows, which not every estimator supports."""
        soft = _weight_name(build(self.estimator, self.params)) is not None
        return frozenset({"probabilities", "scores", "soft"} if soft else {"probabilities", "scores"})

    @property
    def sparse(self) -> bool:
        """Whether the estimator takes sparse rows: linear models, naive Bayes of counts, multilayer perceptrons."""
        return estimator_takes_sparse(build(self.estimator, self.params))

    def check(self) -> None:
        """Build the estimator once, to find a wrong name or parameter before any training."""
        from sklearn.base import is_classifier

        final = build(self.estimator, self.params)
        while hasattr(final, "steps"):
            final = final.steps[-1][1]
        if not is_classifier(final):
            raise ElectionError(f"learner sklearn: {type(final).__name__} is not a classifier")

    def most_rows_held(self, rows: int) -> int:
        """All of them, if a part of the estimator keeps neighbours or support vectors."""
        held = any(type(part).__name__ in HOLD_ROWS for part in parts(build(self.estimator, self.params)))
        return rows if held else 0

    def fit_many(self, X: Array, tasks: Sequence[Task], classes: int, *, keep: bool = True) -> Models:
        model = build(self.estimator, self.params)
        # `grow` releases the interpreter's lock, and so does scikit-learn in the trees of a forest.
        return fit_each(
            self, X, tasks, classes, keep, self.estimator, threads=can_grow(model), inside=_is_forest(model)
        )

    def fit_one(self, X: Array, y: Array, weight: Array | None, seed: int, classes: int) -> Model:
        model = build(self.estimator, self.params)
        if seeds := [p for p in model.get_params() if p == "random_state" or p.endswith("__random_state")]:
            model.set_params(**dict.fromkeys(seeds, seed))
        X = X if is_sparse(X) else np.ascontiguousarray(X.reshape(len(X), -1), dtype=np.float32)
        threads = threads_of_a_model()
        if weight is None and can_grow(model) and not np.isnan(X).any():
            grow(model, X, y, threads)
        elif weight is None:
            _fit(model, X, y, threads)
        elif argument := _weight_name(model):
            _fit(model, X, y, threads, **{argument: weight})
        else:
            raise ElectionError(f"learner sklearn: {self.estimator} cannot weight its rows, which soft labels need")
        fitted = SklearnModel(model, classes)
        if type(model).__name__ == AS_FOREST and (blob := as_forest(fitted)):
            return ForestFormat.load(blob.data, classes=classes)
        return fitted


def _is_forest(model: Any) -> bool:
    return type(model).__name__ in ("RandomForestClassifier", "ExtraTreesClassifier")


def _fit(model: Any, X: Array, y: Array, threads: int, **weight: Array) -> None:
    """Fit the estimator, the trees of a forest in threads; each tree has its own seed."""
    if not _is_forest(model) or threads == 1:
        model.fit(X, y, **weight)
        return
    stated = model.n_jobs
    model.set_params(n_jobs=threads).fit(X, y, **weight)
    model.set_params(n_jobs=stated)  # the model is the same with any number of threads, and so is its file


def build(estimator: str, params: Mapping[str, Any]) -> Any:
    """Build the estimator that a name and parameters describe."""
    if not isinstance(params, Mapping):
        raise ElectionError(f"learner sklearn: params of {estimator} must be names and values, not {params!r}")
    built = {key: _build_value(value) for key, value in params.items()}
    if estimator == "Pipeline":
        return _build_pipeline(built)
    cls = _find(estimator)
    known = inspect.signature(cls).parameters
    if unknown := sorted(built.keys() - known.keys()):
        raise ElectionError(
            f"learner sklearn: {estimator} has no parameter {', '.join(unknown)}; it has {', '.join(known)}"
        )
    for key, value in built.items():
        if isinstance(value, list) and isinstance(known[key].default, tuple):  # TOML and JSON have no tuples
            built[key] = tuple(value)
        if value in REFUSED.get(estimator, {}).get(key, ()):
            raise ElectionError(f"learner sklearn: {estimator}({key}={value!r}) gives models that cannot be sent")
    if built.get("categorical_features", "from_dtype") not in ("from_dtype", None):
        raise ElectionError(f"learner sklearn: {estimator}(categorical_features=…) gives models that cannot be sent")
    model = cls(**built)
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
    """Return an estimator's name and its parameters that differ from the defaults."""
    cls = type(estimator)
    if cls.__module__.split(".")[0] != "sklearn":
        raise ElectionError(
            f"{cls.__module__}.{cls.__name__} is not part of scikit-learn, and a tally loads only models in a safe "
            "format. Write a learner for it: see docs/extending.md"
        )
    if hasattr(estimator, "steps"):
        steps = [step for _, step in estimator.steps if not isinstance(step, str)]  # "passthrough" does nothing
        return {"estimator": "Pipeline", "params": {"steps": [describe(step) for step in steps]}}
    params, defaults = {}, inspect.signature(cls).parameters
    for name, value in estimator.get_params(deep=False).items():
        default = defaults[name].default
        if value is not default and (isinstance(value, np.ndarray) or value != default):
            params[name] = _describe_value(f"{cls.__name__}({name}={value!r})", value)
    return {"estimator": cls.__name__, "params": params}


def _build_value(value: Any) -> Any:
    if isinstance(value, Mapping) and "estimator" in value:
        return build(value["estimator"], value.get("params", {}))
    return [_build_value(v) for v in value] if isinstance(value, list) else value


def _describe_value(where: str, value: Any) -> Any:
    if hasattr(value, "get_params"):
        return describe(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list | tuple | np.ndarray):
        return [_describe_value(where, v) for v in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    raise ElectionError(f"{where} cannot be written into an election; use a number, a name or a list")


def _find(name: str) -> Any:
    """Return the class if `formats/skops.py` accepts models of it."""
    for module, names in (*CLASSIFIERS.items(), *PARTS.items()):
        if name in names.split() and not name.startswith("_"):
            return getattr(importlib.import_module(module), name)
    known = ", ".join(sorted(n for names in CLASSIFIERS.values() for n in names.split()))
    raise ElectionError(f"learner sklearn: {name!r} is not supported; choose one of {known}")


def _weight_name(model: Any) -> str | None:
    """Return the name of the `fit` argument for sample weights, of a Pipeline's last step; None if there is none."""
    from sklearn.utils.validation import has_fit_parameter

    if hasattr(model, "steps"):
        name, last = model.steps[-1]
        inner = _weight_name(last)
        return inner and f"{name}__{inner}"
    return "sample_weight" if has_fit_parameter(model, "sample_weight") else None


plugin = Sklearn
