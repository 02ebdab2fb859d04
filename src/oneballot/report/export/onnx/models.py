"""Each kind of model as nodes of a graph: from encoded rows to probabilities `(rows, classes)` in float64."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .... import plugins
from ....errors import ExportError, OneBallotError
from ....formats._forest_convert import read_lightgbm, read_xgboost
from ....formats.forest import ForestModel, as_forest
from ....formats.kernel import CERTAIN, KernelModel
from ....formats.kernel import LARGEST as LARGEST_NUMBER
from ....formats.safetensors import ConstantModel
from ....formats.skops import SklearnModel
from ....formats.torch_safetensors import TorchModel
from ....formats.ubjson import SPARSE, XGBoostModel
from ....influence import ENOUGH_PARTIES, LEAST_CLAIMED, most_share
from ....interfaces import Model
from ....methods.analytic.format import LinearModel
from ....methods.ensemble.average import EnsembleModel
from ....methods.ensemble.members import Members
from ....methods.ensemble.open_model import LEAST_RATIO, MINE, OpenEnsemble
from ....runtime.progress import progress_reporter
from ....server.sandbox import Sandbox, checked_format
from ....types import Array, Blob
from .graph import Graph
from .networks import add_encoder, add_network
from .trees import add_trees


@dataclass
class Builder:
    """Adds models to a graph. rows: the encoded rows. shape, dtype: those of a row. sandbox: for untrusted models.

    trust_members: also convert networks of parties, which torch builds and traces in this process.
    """

    g: Graph
    rows: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    sandbox: Sandbox
    trust_members: bool = False

    @property
    def features(self) -> int:
        return math.prod(self.shape)

    @property
    def vectors(self) -> str:
        """Rows as vectors, in float32."""
        g, flat = self.g, self.rows
        if len(self.shape) != 1:
            flat = g.add("Reshape", flat, np.array([0, self.features]))
        return flat if self.dtype == np.float32 else g.cast(flat, np.float32)

    def add(self, model: Model, classes: int) -> str:
        """The probabilities of a model that this process has opened. Raises ExportError for other kinds."""
        if isinstance(model, OpenEnsemble):
            return self._open_ensemble(model)
        if isinstance(model, EnsembleModel):
            return self._average(model)
        if isinstance(model, ConstantModel):
            shape = self.g.add("Concat", self.g.rows(self.rows), np.array([classes]), axis=0)
            return self.g.add("Expand", model.probabilities[None], shape)
        if isinstance(model, ForestModel):
            return add_trees(self.g, model.trees, self.vectors, classes)
        if isinstance(model, KernelModel):
            return self._kernel(model)
        if isinstance(model, LinearModel):
            return self._linear(model)
        if isinstance(model, TorchModel):
            return add_network(self.g, model, self.rows, self.dtype)
        if isinstance(model, XGBoostModel):
            return self._blob_of_trees(model.dump(), classes)
        forest = as_forest(model)
        if forest is not None:
            return self.add(plugins.find("formats", forest.format).load(forest.data, classes=classes), classes)
        if isinstance(model, SklearnModel):
            from .estimators import add_graph, estimator_graph

            return add_graph(self.g, estimator_graph(model, self.features), self.vectors, model.seen, classes)
        raise ExportError(f"a {type(model).__name__} cannot be expressed in ONNX")

    def add_member(self, blob: Blob, classes: int) -> str:
        """The probabilities of a party's model. Only arrays are read in this process; others go to the sandbox."""
        with checked_format(blob, classes, self.features) as form:
            pass
        if blob.format in ("ubjson", "lightgbm-text"):
            return self._blob_of_trees(blob, classes)
        network = blob.format == "torch-safetensors"  # checked arrays for our own modules
        if network and not self.trust_members:
            raise ExportError(
                "it is a party's network, which is converted outside the sandbox, where a hostile one can use all "
                "memory and time; add --trust-members (trust_members=True) if you trust every party"
            )
        if form.inert or network:
            return self.add(form.load(blob.data, classes=classes), classes)
        if blob.format == "skops":
            from .estimators import add_graph, read_graph

            answer = self.sandbox.run("oneballot.report.export.onnx.estimators:convert", blob, classes=classes)
            if isinstance(read := read_graph(answer, classes, self.features), ForestModel):
                return self.add(read, classes)
            return add_graph(self.g, read.graph, self.vectors, read.seen, classes)
        raise ExportError(f"a model of the format {blob.format} cannot be expressed in ONNX")

    def _blob_of_trees(self, blob: Blob, classes: int) -> str:
        read = read_xgboost if blob.format == "ubjson" else read_lightgbm
        rows = self.vectors
        if blob.format == "ubjson" and SPARSE.encode() in blob.data:  # it was trained with zeros as missing values
            rows = self.g.add("Where", self.g.add("Equal", rows, np.float32(0)), np.float32(np.nan), rows)
        try:
            return add_trees(self.g, read(blob.data, classes, self.features), rows, classes)
        except OneBallotError as error:
            raise ExportError(f"the {blob.format} model cannot be expressed in ONNX: {error}") from None

    def _each(self, members: Members, what: str) -> list[str]:
        report, out = progress_reporter(what, len(members)), []
        for i, blob in enumerate(members.blobs):
            try:
                out.append(self.add_member(blob, members.classes))
            except OneBallotError as error:
                raise ExportError(f"member {i + 1} of the ensemble: {error}") from None
            report(i + 1)
        return out

    def _open_ensemble(self, model: OpenEnsemble) -> str:
        g, total = self.g, None
        weights = self._claims(model)
        opinions = []
        for i, probabilities in enumerate(self._each(model.members, "converting members")):
            known, answers = self._or_abstain(probabilities)
            opinions.append(g.normalized(g.add("Pow", known, np.float64(model.power))))
            weights[i] = g.add("Mul", g.cast(answers, np.float64), weights[i])
        if model.cap and len(weights) >= ENOUGH_PARTIES:
            share = most_share(len(weights), model.cap)
            level = cap_level(g, g.add("Concat", *weights, axis=1), len(weights), float(model.rows.sum()), share)
            weights = [g.add("Min", weight, level) for weight in weights]
        for opinion, weight in zip(opinions, weights, strict=True):
            part = g.add("Mul", opinion, weight)
            total = part if total is None else g.add("Add", total, part)
        assert total is not None
        nothing = g.add("Equal", g.add("ReduceSum", total, np.array([1]), keepdims=1), np.float64(0))
        return g.normalized(g.add("Where", nothing, np.float64(1), total))

    def _claims(self, model: OpenEnsemble) -> list[Any]:
        """The weight of each member before the cap, `(rows, 1)`; a constant without claims."""
        g = self.g
        weights: list[Any] = [np.array([[rows]]) for rows in model.rows]
        if not len(model.claims):
            return weights
        ratios = []
        for claim, scale in zip(self._each(model.claims, "converting claims"), model.scales, strict=True):
            claim, answers = self._or_abstain(claim)
            mine = g.add("Gather", claim, np.array([MINE]), axis=1)
            other = g.add("Gather", claim, np.array([1 - MINE]), axis=1)
            ratio = g.add("Div", mine, g.add("Max", other, np.float64(model.floor)))
            ratio = g.add("Div", g.add("Max", ratio, np.float64(LEAST_RATIO)), np.float64(scale))
            ratios.append((ratio, answers))
        for i, rows in enumerate(model.rows):
            (first, answers), *others = ratios[i :: len(weights)]
            for other, too in others:
                first, answers = g.add("Add", first, other), g.add("And", answers, too)
            weight = g.add("Mul", first, rows / (1 + len(others)))
            weights[i] = g.add("Where", answers, weight, np.float64(0))
        return weights

    def _or_abstain(self, values: str) -> tuple[str, str]:
        """Probabilities, all equal in rows that hold none, and which rows hold some, as in `models.or_abstain`."""
        g = self.g
        off = g.add("Abs", g.add("Sub", g.add("ReduceSum", values, np.array([1]), keepdims=1), 1.0))
        smallest = g.add("ReduceMin", values, np.array([1]), keepdims=1)
        good = g.add("And", g.add("LessOrEqual", off, 1e-3), g.add("GreaterOrEqual", smallest, 0.0))
        return g.add("Where", good, values, np.float64(1)), good

    def _average(self, model: EnsembleModel) -> str:
        g, total, counted = self.g, None, None
        weights = model.weights.sum(axis=0)
        for probabilities, weight in zip(self._each(model.members, "converting members"), weights, strict=True):
            known, good = self._or_abstain(probabilities)
            weighed = g.add("Mul", g.cast(good, np.float64), weight[None])
            part = g.add("Mul", known, weighed)
            total = part if total is None else g.add("Add", total, part)
            counted = weighed if counted is None else g.add("Add", counted, weighed)
        assert total is not None
        known = g.add("Greater", counted, 0.0)
        total = g.add("Div", total, g.add("Where", known, counted, np.float64(1)))
        empty = g.add("Equal", g.add("ReduceSum", total, np.array([1]), keepdims=1), np.float64(0))
        return g.normalized(g.add("Add", total, g.cast(g.add("And", empty, known), np.float64)))

    def _kernel(self, model: KernelModel) -> str:
        g = self.g
        x = g.add("Min", g.add("Max", g.cast(self.vectors, np.float64), -LARGEST_NUMBER), LARGEST_NUMBER)
        scores: str = g.add("Expand", model.intercept[None], g.add("Concat", g.rows(x), np.array([1]), axis=0))
        if len(model.rows):
            centre = model.rows.mean(axis=0, dtype=np.float64)
            rows = np.asarray(model.rows - centre, dtype=np.float64)
            x = g.add("Sub", x, centre[None])
            near = g.add("Mul", g.add("MatMul", x, np.ascontiguousarray(rows.T)), -2.0)
            near = g.add("Add", near, g.add("ReduceSum", g.add("Mul", x, x), np.array([1]), keepdims=1))
            near = g.add("Max", g.add("Add", near, np.einsum("ij,ij->i", rows, rows)[None]), 0.0)
            near = g.add("Exp", g.add("Mul", near, np.float64(-model.gamma)))
            scores = g.add("Add", scores, g.add("MatMul", near, model.coefficients))
        low = g.add("Div", np.float64(CERTAIN**2), g.add("Sub", np.float64(2 * CERTAIN), g.add("Min", scores, CERTAIN)))
        return g.normalized(g.add("Where", g.add("Greater", scores, CERTAIN), scores, low))

    def _linear(self, model: LinearModel) -> str:
        g, features = self.g, model.features
        if features.encoder is not None:
            x = g.cast(add_encoder(g, features.encoder, self.rows, self.dtype), np.float64)
        else:
            x = g.cast(self.vectors, np.float64)
            x = g.add("Div", x, 255.0) if self.dtype == np.uint8 else x
        x = g.add("Div", g.add("Sub", x, features.centre[None]), np.float64(features.bound))
        if features.frequencies is not None:
            phases = g.add("MatMul", x, np.ascontiguousarray(features.frequencies.T))
            x = g.add("Concat", g.add("Cos", phases), g.add("Sin", phases), axis=1)
            x = g.add("Div", x, np.float64(math.sqrt(len(features.frequencies))))
        length = g.add("Sqrt", g.add("ReduceSum", g.add("Mul", x, x), np.array([1]), keepdims=1))
        x = g.add("Div", x, g.add("Max", length, 1.0))
        weights: Array = model.weights / math.hypot(1, features.constant)
        scores = g.add("Add", g.add("MatMul", x, weights[:-1]), features.constant * weights[-1:])
        if model.output == "softmax":
            return g.softmax(scores)
        return g.normalized(g.add("Min", g.add("Max", scores, 1e-6), 1.0))


def cap_level(g: Graph, weights: str, members: int, expected: float, share: float) -> str:
    """The most that one of the members may weigh in a row, `(rows, 1)`, as in `influence.cap_weights`.

    The sum of weights cut at a level is the least of m · level + rest_m over m, where rest_m is the weight of all but
    the m largest. So the level at which it is a total is the largest (total - rest_m) / m, and the level which is a
    share of it the smallest share · rest_m / (1 - share · m).
    """
    most = math.ceil(1 / share - 1e-9)
    ordered, _ = g.several("TopK", weights, np.array([members]), outputs=2, axis=1)
    rest = g.add("CumSum", ordered, np.int64(1), reverse=1)
    first = g.add("Slice", rest, np.array([0]), np.array([most]), np.array([1]))
    shares = g.add("Mul", first, share / (1 - share * np.arange(most)[None]))
    left = g.add("Sub", np.float64(LEAST_CLAIMED * expected), g.add("Sub", rest, ordered))
    totals = g.add("Div", left, np.arange(1.0, members + 1)[None])
    return g.add("Max", g.add("ReduceMin", shares, np.array([1])), g.add("ReduceMax", totals, np.array([1])))
