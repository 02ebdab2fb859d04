"""Neural networks in PyTorch: built-in architectures by name, or a custom module, trained together as a fleet."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field, fields
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import BeforeValidator, Field, PositiveInt, model_validator
from pydantic_core import ArgsKwargs

from ..errors import DataError, ElectionError, Spoiled
from ..fleet.learner import NetworkLearner
from ..formats.torch_safetensors import Description, TorchModel, TorchSafetensors, probabilities
from ..interfaces import Model, Models
from ..runtime.executor import workers
from ..settings import settings
from ..types import Array, Blob, Task
from ._custom_modules import PREFIX, CustomModel, CustomModule, is_module
from ._fallback import class_frequencies, predict, reject_no_rows, report_failure
from ._recipes import completed
from ._training import TrainedModels
from ._word_vectors import vectors_digest, vectors_of

if TYPE_CHECKING:
    from ..fleet.models.network import Network
    from ..fleet.train.recipe import Recipe

Weights = Mapping[str, Array]
Rate = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Augment = Annotated[
    tuple[Literal["auto", "shift", "crop", "flip"], ...], BeforeValidator(lambda v: (v,) if isinstance(v, str) else v)
]


@settings
class Torch(NetworkLearner):
    """Neural networks.

    module: "mlp", "cnn", "convnet", "lenet", "vgg9", "resnet8", "resnet34", "textcnn", "bilstm", "transformer", or a
    function that takes the number of classes and returns an `nn.Module`. "convnet" chooses settings that are left out.
    settings: those of the architecture, and for each the `shape` of a row, as in {"shape": [1, 28, 28]}.
    vectors: a file of word vectors (GloVe's text format) for text, relative to the election file.
    optimizer: "adam"; "adamw", or "sgd" with momentum 0.9, whose learning rate falls to `last_rate` along a cosine.
    augment: random "shift", "crop" and "flip" of images during training; "auto": crop and flip of images with three
    channels, shift of others.
    steps: the number of full batches that each model trains on, instead of epochs. L2 requires it, because the number
    of steps must not reveal the number of rows.
    """

    name: ClassVar[str] = "torch"
    provides: ClassVar[frozenset[str]] = frozenset(
        {"probabilities", "scores", "soft", "score targets", "weights", "gradients"}
    )
    targets: ClassVar[frozenset[str]] = frozenset({"classes", "labels"})

    files: ClassVar[tuple[str, ...]] = ("vectors",)

    module: Any = "mlp"
    settings: Mapping[str, Any] = field(default_factory=dict)
    vectors: str | None = None
    epochs: PositiveInt = 20
    batch: PositiveInt = 32
    optimizer: Literal["adam", "adamw", "sgd"] = "adam"
    learning_rate: Rate = 1e-3
    last_rate: Rate = 0.0
    weight_decay: Rate = 0.0
    augment: Augment = ()
    device: Literal["auto", "cpu", "cuda"] = "auto"
    precision: Literal["float32", "tf32", "bfloat16"] = "float32"
    steps: PositiveInt | None = None

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, given: ArgsKwargs) -> ArgsKwargs:
        return completed(given, [each.name for each in fields(cls)])

    def __post_init__(self) -> None:
        if not isinstance(self.module, str):
            if not callable(self.module) or is_module(self.module):
                raise ElectionError(
                    "learner torch: module must be the name of an architecture, or a function that takes the number of "
                    f"classes and returns a new nn.Module, not {type(self.module).__name__}"
                )
            object.__setattr__(self, "module", CustomModule(self.module))

    def check(self) -> None:
        TorchSafetensors.prepare()
        from ..fleet.models.architectures import ARCHITECTURES, custom_shape
        from ..fleet.train.devices import find_device

        find_device(self.device)
        self.recipe()
        if isinstance(self.module, CustomModule):
            if unknown := sorted(self.settings.keys() - {"shape"}):
                raise ElectionError(f"learner torch: a custom module has no setting {', '.join(unknown)}, only shape")
            takes = "images" if len(custom_shape(self.settings) or (1, 1, 1)) == 3 else "numbers"
        elif self.module.startswith(PREFIX):
            raise ElectionError(f"learner torch: {self.module[4:]} is a custom module; create this election in Python")
        else:
            self._settings(read=False)
            takes = "images" if len(self.settings.get("shape", ())) == 3 else ARCHITECTURES[self.module].takes
        if self.augment and takes != "images":
            raise ElectionError(f"learner torch: augment is for images, but {self.module} takes {takes}")
        if self.vectors is not None and takes != "tokens":
            raise ElectionError(f"learner torch: vectors are for text, but {self.module} takes {takes}")
        if not isinstance(self.module, CustomModule):
            self._settings()

    def check_rows(self, X: Array) -> None:
        from ..fleet.models.inputs import check_tokens

        shape = self._shape(X.shape[1:])
        if self.augment:
            self.recipe().check_images(shape)
        if (vocabulary := self.vocabulary) is not None:
            try:
                check_tokens(X, vocabulary)
            except DataError as error:
                raise ElectionError(f"learner torch: {self.module}: {error}") from None

    def check_apart(self) -> None:
        """Refuse epochs: the number of steps that models take together would depend on the rows of each."""
        if self.steps is None:
            raise ElectionError(
                "learner torch: at L2 a teacher trains for a fixed number of steps, whatever its rows. Set for example "
                f"steps = {5 * self.epochs}, which is {self.epochs} epochs of {5 * self.batch} rows."
            )

    def describe(self) -> dict[str, Any]:
        """Return the settings, with the digest of the word vectors instead of their path."""
        return asdict(self) if self.vectors is None else {**asdict(self), "vectors": vectors_digest(self.vectors)}

    def fit_many(self, X: Array, tasks: Sequence[Task], classes: int, *, keep: bool = True) -> Models:
        """Train all tasks as one fleet. A task without rows, or with a single class, gets its class frequencies.

        A single class is trained too if `steps` is set, because the fleet must not reveal which classes its models
        have, and if the network starts from given weights, which frequencies would ignore.
        """
        self.check()
        if self.settings.get("one_logit") and any(task.activation != "softmax" for task in tasks):
            raise ElectionError(
                "learner torch: one_logit is for two classes of which a row has one; leave it out in a multi-label "
                "election"
            )
        from ..fleet.train.engine import train

        models = [self._without_training(task, classes) for task in tasks]
        outputs = [
            np.empty((0, classes)) if model is None else predict(model, X, task, classes)
            for model, task in zip(models, tasks, strict=True)
        ]
        if busy := [i for i, model in enumerate(models) if model is None]:
            network, what = self.network(X.shape[1:], classes), f"{self.module.rpartition('.')[2]} networks"
            options: Any = {"device": self.device, "workers": workers(), "what": what, "keep": keep}
            trained = train(network, X, [tasks[i] for i in busy], self.recipe(), classes, **options)
            for i, values, logits, finite in zip(busy, trained.values, trained.logits, trained.finite, strict=True):
                task, output = tasks[i], tasks[i].activation
                if finite and np.isfinite(logits).all():
                    models[i] = self.model_of(network, values, classes, output, device=self.device) if keep else None
                    outputs[i] = logits.astype(np.float64) if task.answer == "scores" else probabilities(logits, output)
                else:
                    report_failure(task, "its weights grew without bound; choose a lower learning_rate")
                    constant = class_frequencies(task, classes)
                    models[i], outputs[i] = constant, predict(constant, X, task, classes)
        return TrainedModels(models if keep else [None] * len(tasks), outputs)

    def _without_training(self, task: Task, classes: int) -> Model | None:
        """Return class frequencies if the task needs no network, else None."""
        if not len(task.rows):
            reject_no_rows(task)
            return class_frequencies(task, classes)
        single_class = task.kind == "labels" and len(np.unique(task.targets)) == 1
        return class_frequencies(task, classes) if single_class and self.steps is None and task.start is None else None

    def _settings(self, read: bool = True) -> dict[str, Any]:
        """Return all settings of the architecture; with `read`, the size of the embedding is that of the vectors."""
        from ..fleet.models.architectures import check_settings

        table = self._embedding() if read else None
        size = {} if table is None else {"vocabulary": len(table), "dimension": table.shape[1]}
        return check_settings(self.module, {**self.settings, **size})

    def _embedding(self) -> Array | None:
        return None if self.vectors is None else vectors_of(self.vectors, self.settings.get("vocabulary")).table

    def _shape(self, row: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of a row as the network sees it."""
        from ..fleet.models.architectures import custom_shape, shape_of

        if not isinstance(self.module, CustomModule):
            return shape_of(self.module, self._settings(), row)
        shape = custom_shape(self.settings) or row
        if math.prod(shape) != math.prod(row):
            raise ElectionError(f"learner torch: shape = {list(shape)} does not fit rows of shape {row}")
        return shape

    @property
    def row(self) -> tuple[int, ...]:
        """The shape of a row, if the settings give it."""
        return tuple(self.settings.get("shape", ()))

    @property
    def vocabulary(self) -> int | None:
        return None if isinstance(self.module, CustomModule) else self._settings().get("vocabulary")

    def network(self, row: tuple[int, ...], classes: int) -> Network:
        """Return the network to train on rows of this shape."""
        from ..fleet.models.network import built_in, custom

        if isinstance(self.module, CustomModule):
            return custom(self.module.factory, self._shape(row), classes)
        return built_in(self.module, self._settings(), row, classes, self._embedding())

    def recipe(self) -> Recipe:
        """Return the hyperparameters of the training."""
        from ..fleet.train.recipe import Recipe

        settings = asdict(self)
        return Recipe(**{f.name: settings[f.name] for f in fields(Recipe) if f.name in settings})

    def weights_of(self, blob: Blob, row: tuple[int, ...], classes: int) -> Weights:
        """Return the weights in a network file. Raises ElectionError if this learner does not train such networks."""
        if blob.format != TorchSafetensors.name:
            raise ElectionError(f"learner torch can only start from a network, not from a {blob.format} model")
        try:
            TorchSafetensors.check(blob.data, classes=classes, features=math.prod(row))
        except Spoiled as reason:
            raise ElectionError(f"learner torch cannot start from this network: {reason}") from None
        model, network = TorchSafetensors.load(blob.data, classes=classes), self.network(row, classes)
        given, own = model.description, self._description(network, classes, model.description.output)
        if given != own:
            raise ElectionError(
                f"learner torch trains {own.architecture} {own.settings} on rows of shape {own.shape} and cannot start "
                f"from {given.architecture} {given.settings} of shape {given.shape}. Use the same learner for both."
            )
        return model.arrays

    def _description(self, network: Network, classes: int, output: str = "softmax") -> Description:
        settings = {} if isinstance(self.module, CustomModule) else self._settings()
        settings.pop("shape", None)  # the description has the network's
        return Description(self.module, settings, network.shape, classes, output)

    def model_of(
        self, network: Network, values: Weights, classes: int, output: str = "softmax", *, device: str = "cpu"
    ) -> TorchModel:
        """Return a model with these weights, as if it had been trained here; it predicts on this device."""
        description = self._description(network, classes, output)
        if isinstance(self.module, CustomModule):
            model = CustomModel(description, values, device)
            model.module = network.make(values).eval()
            return model
        fixed = {key: value.numpy() for key, value in network.bare.state_dict().items() if key not in values}
        return TorchModel(description, {**values, **fixed}, device)


plugin = Torch
