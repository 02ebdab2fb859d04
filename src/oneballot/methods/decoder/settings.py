"""The settings of decoders, and what they need of an election."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, PositiveInt

from ...errors import ElectionError
from ...interfaces import Agreement, Learner, Method
from ...settings import settings
from .._shared import CLASS_COUNTS
from .format import MOST_HIDDEN, MOST_LATENT, Expected, Weights
from .layout import Layout
from .work import Recipe

DRAFT = """\
influence = "bounded"           # a party's rows count up to twice those of the median row's party; "claimed": all
weights = "int8"                # of the decoders that parties send; "float16", "float32" take 2 and 4 times the bytes

[learners.final]                # trained on rows that the decoders make
name = "sklearn"                # or "xgboost", "lightgbm", "torch" (networks: docs/networks.md)
estimator = "ExtraTreesClassifier"
"""


@settings
class DecoderSettings(Method):
    """latent: the numbers that a decoder makes a row of. hidden: the width of its hidden layer.

    steps, batch, learning_rate: of a party's training by Adam, whose learning rate falls to 0 along a cosine.
    divergence: the weight of the Kullback–Leibler term (β in a β-VAE); smaller makes sharper rows.
    weights: how a decoder's weights travel. rows: how many rows the tally makes; by default as many as the parties'
    rows that count, up to `MOST_ROWS_MADE`.
    influence: "bounded": a party's rows count up to twice those of the party in which the median row lies;
    "claimed": all that it declares.
    """

    name: ClassVar[str] = "decoder"
    why_not_shared: ClassVar[str] = "its ballots are models, which cannot be added up"
    draft: ClassVar[str] = DRAFT
    levels: ClassVar[frozenset[str]] = frozenset({"L0"})
    why_not: ClassVar[str] = (
        "a decoder is trained on private rows, without noise; use analytic at L2, or neighbours, which needs public "
        "rows, at L1 or L2"
    )
    counts: ClassVar[tuple[str, ...]] = ("seen",)
    meanings: ClassVar[Mapping[str, str]] = {
        "seen": CLASS_COUNTS,
        "model": "a decoder, trained on all rows used: it makes rows like them, by class",
    }
    needs: ClassVar[Mapping[str, frozenset[str]]] = {"final": frozenset({"probabilities"})}

    latent: Annotated[int, Field(ge=1, le=MOST_LATENT)] = 16
    hidden: Annotated[int, Field(ge=1, le=MOST_HIDDEN)] = 400
    steps: PositiveInt = 2000
    batch: PositiveInt = 64
    learning_rate: Annotated[float, Field(gt=0, le=1)] = 4e-3
    divergence: Annotated[float, Field(ge=0, le=100)] = 0.5
    weights: Weights = "int8"
    rows: PositiveInt | None = None
    influence: Literal["bounded", "claimed"] = "bounded"

    @property
    def recipe(self) -> Recipe:
        return Recipe(self.latent, self.hidden, self.steps, self.batch, self.learning_rate, self.divergence)

    @property
    def risk(self) -> str:
        if self.influence == "bounded":
            return ""
        return (
            "A party's decoder makes as many of the rows as it declares, so one that lies can make nearly all of them. "
            'influence = "bounded" limits it.'
        )

    def default_learners(self, shape: tuple[int, ...], tokens: bool) -> Mapping[str, Mapping[str, Any]]:
        """A network for images; for tables the same as elsewhere."""
        return {"final": {"name": "torch", "module": "mlp"}} if len(shape) > 1 and not tokens else {}

    def check(self, agreed: Agreement, learners: Mapping[str, Learner]) -> None:
        if not agreed.shape:
            raise ElectionError(
                "decoder needs the shape of a row: give the election a schema or a public set, or the learner its "
                "shape, as in settings = {shape = [1, 28, 28]}"
            )
        layout = Layout.of(agreed)
        learners["final"].check_rows(np.zeros((1, *agreed.shape), dtype=layout.dtype))

    def expected(self, agreed: Agreement) -> Expected:
        """The size of a decoder in this election."""
        sizes = Layout.of(agreed).sizes
        classes = len(agreed.classes)
        return Expected(self.latent, self.hidden, classes, sizes.total, sizes.numbers, self.weights)
