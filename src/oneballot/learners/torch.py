"""Neural networks (PyTorch): the architectures of the papers by name, or a module of your own, trained as a fleet."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import BeforeValidator, Field, PositiveInt

from ..errors import DataError, ElectionError, MissingExtra, Spoiled
from ..formats.torch_safetensors import Description, TorchModel, TorchSafetensors, probabilities
from ..interfaces import Model, Models, NetworkJob
from ..runtime.executor import workers
from ..settings import settings
from ..types import Array, Blob, Task
from ._own import Own, OwnModel, is_module
from ._replies import constant, failed, output_of, reply
from ._training import TrainedModels
from ._words import digest_of, vectors_of

if TYPE_CHECKING:
    from ..fleet.models.network import Network
    from ..fleet.models.vectors import Vectors
    from ..fleet.train.recipe import Recipe

Rate = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Augment = Annotated[
    tuple[Literal["shift", "crop", "flip"], ...], BeforeValidator(lambda v: (v,) if isinstance(v, str) else v)
]


@settings
class Torch:
    """module: "mlp", "cnn", "lenet", "vgg9", "resnet8", "resnet34", "textcnn", "bilstm", "transformer", or a function
    that is given the number of classes and returns an `nn.Module`. settings: of the architecture, and for all `shape`
    of a row, as in {"shape": [1, 28, 28]}. vectors: a file of word vectors (GloVe's text format) for text; in an
    election.toml, beside it. optimizer: "adam", or "sgd" with momentum 0.9 and a rate that falls to `last_rate` along a
    cosine. augment: "shift", "crop", "flip" of images in training. steps: so many full batches a model whatever rows it
    has, instead of epochs; at L2, so that nothing tells how many there are.
    """

    name: ClassVar[str] = "torch"
    provides: ClassVar[frozenset[str]] = frozenset(
        {"probabilities", "scores", "soft", "score targets", "multilabel", "weights", "gradients"}
    )

    files: ClassVar[tuple[str, ...]] = ("vectors",)

    module: Any = "mlp"
    settings: Mapping[str, Any] = field(default_factory=dict)
    vectors: str | None = None
    epochs: PositiveInt = 20
    batch: PositiveInt = 32
    optimizer: Literal["adam", "sgd"] = "adam"
    learning_rate: Rate = 1e-3
    last_rate: Rate = 0.0
    weight_decay: Rate = 0.0
    augment: Augment = ()
    device: Literal["auto", "cpu", "cuda"] = "auto"
    precision: Literal["float32", "tf32", "bfloat16"] = "float32"
    steps: PositiveInt | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.module, str):
            if not callable(self.module) or is_module(self.module):
                raise ElectionError(
                    f"learner torch: module is the name of an architecture, or a function from the number of classes "
                    f"to a new nn.Module, not {type(self.module).__name__}"
                )
            object.__setattr__(self, "module", Own(self.module))

    def check(self) -> None:
        try:
            import torch  # noqa: F401
        except ImportError:
            raise MissingExtra("The learner torch", "torch") from None
        from ..fleet.models.architectures import ARCHITECTURES, custom_shape
        from ..fleet.train.devices import find_device

        find_device(self.device)
        self.recipe()
        if isinstance(self.module, Own):
            if unknown := sorted(self.settings.keys() - {"shape"}):
                raise ElectionError(f"learner torch: settings of your own module are its own, not {', '.join(unknown)}")
            takes = "images" if len(custom_shape(self.settings) or (1, 1, 1)) == 3 else "numbers"
        elif self.module.startswith("own:"):
            raise ElectionError(f"learner torch: the module {self.module[4:]} is somebody's own, to be used in Python")
        else:
            self._settings(read=False)
            takes = "images" if len(self.settings.get("shape", ())) == 3 else ARCHITECTURES[self.module].takes
        if self.augment and takes != "images":
            raise ElectionError(f"learner torch: augment is for images, and {self.module} takes {takes}")
        if self.vectors is not None and takes != "tokens":
            raise ElectionError(f"learner torch: vectors are for text, and {self.module} takes {takes}")
        if not isinstance(self.module, Own):
            self._settings()

    def check_rows(self, X: Array) -> None:
        from ..fleet.models.inputs import check_tokens

        shape = self._shape(X.shape[1:])
        if self.augment:
            self.recipe().check_images(shape)
        if not isinstance(self.module, Own) and "vocabulary" in (settings := self._settings()):
            try:
                check_tokens(X, settings["vocabulary"])
            except DataError as error:
                raise ElectionError(f"learner torch: {self.module}: {error}") from None

    def check_apart(self) -> None:
        """By epochs, how many steps are taken together follows from how many rows each of the models has."""
        if self.steps is None:
            raise ElectionError(
                "learner torch: at L2 a teacher takes a number of steps, whatever rows it has: set steps, such as "
                f"steps = {5 * self.epochs}, what {self.epochs} epochs of {5 * self.batch} rows are"
            )

    def describe(self) -> dict[str, Any]:
        """Its settings, with what is in the file of vectors instead of where it is."""
        told = asdict(self)
        if self.vectors is not None:
            told["vectors"] = digest_of(self.vectors)
        return told

    def fit_many(self, X: Array, tasks: Sequence[Task], classes: int, *, keep: bool = True) -> Models:
        """Tasks without a row, or with a single class, are answered by frequencies; the others are one fleet.

        By steps a single class is learned as well: what a fleet is must not tell which classes its models have. So it
        is where a network goes on from other numbers, of which frequencies would know nothing.
        """
        self.check()
        from ..fleet.train.engine import train

        models: list[Model | None] = [
            constant(task, classes, lone=self.steps is None and task.start is None) for task in tasks
        ]
        replies = [reply(model, X, task, classes) for model, task in zip(models, tasks, strict=True)]
        if busy := [i for i, model in enumerate(models) if model is None]:
            some, network = [tasks[i] for i in busy], self.network(X.shape[1:], classes)
            what = f"{self.module.rpartition('.')[2]} networks"
            trained = train(
                network, X, some, self.recipe(), classes, device=self.device, workers=workers(), what=what, keep=keep
            )
            for i, values, logits, finite in zip(busy, trained.values, trained.logits, trained.finite, strict=True):
                if finite and np.isfinite(logits).all():
                    if keep:
                        models[i] = self.model_of(network, values, classes, output_of(tasks[i]))
                    asked = tasks[i].answer == "probabilities"
                    replies[i] = probabilities(logits, output_of(tasks[i])) if asked else logits.astype(np.float64)
                else:
                    models[i] = failed(tasks[i], classes)
                    replies[i] = reply(models[i], X, tasks[i], classes)
        return TrainedModels(models if keep else [None] * len(tasks), replies)

    def _settings(self, read: bool = True) -> dict[str, Any]:
        """Of the architecture, all of them; those of a table of words from the file, if it is read."""
        from ..fleet.models.architectures import check_settings

        given = dict(self.settings)
        if self.vectors is not None and read:
            table = self._vectors().table
            given |= {"vocabulary": len(table), "dimension": table.shape[1]}
        return check_settings(self.module, given)

    def _vectors(self) -> Vectors:
        assert self.vectors is not None
        return vectors_of(self.vectors, self.settings.get("vocabulary"))

    def _shape(self, row: tuple[int, ...]) -> tuple[int, ...]:
        """Of a row as the network sees it."""
        from ..fleet.models.architectures import custom_shape, shape_of

        if not isinstance(self.module, Own):
            return shape_of(self.module, self._settings(), row)
        shape = custom_shape(self.settings) or row
        if math.prod(shape) != math.prod(row):
            raise ElectionError(f"learner torch: shape = {list(shape)} does not fit rows of shape {row}")
        return shape

    @property
    def row(self) -> tuple[int, ...]:
        """The shape of a row, where the settings say so."""
        return tuple(self.settings.get("shape", ()))

    def network(self, row: tuple[int, ...], classes: int) -> Network:
        """What it trains, for rows of this shape."""
        from ..fleet.models.network import built_in, custom

        if isinstance(self.module, Own):
            return custom(self.module.factory, self._shape(row), classes)
        table = None if self.vectors is None else self._vectors().table
        return built_in(self.module, self._settings(), row, classes, table)

    def recipe(self) -> Recipe:
        """How it trains."""
        from ..fleet.train.recipe import Recipe

        return Recipe(
            epochs=self.epochs, batch=self.batch, optimizer=self.optimizer, learning_rate=self.learning_rate,
            last_rate=self.last_rate, weight_decay=self.weight_decay, augment=self.augment, precision=self.precision,
            steps=self.steps,
        )  # fmt: skip

    def training(self, network: Network, X: Array, recipe: Recipe, classes: int, what: str) -> Any:
        """To train such networks on rows of X round by round."""
        from ..fleet.train.engine import Training

        return Training(network, X, recipe, classes, device=self.device, workers=workers(), what=what)

    def run(self, job: NetworkJob) -> Any:
        """The result of a method's own work on such networks, on this learner's device."""
        (result,) = job.run_together(self, [job])
        return result

    def weights_of(self, blob: Blob, row: tuple[int, ...], classes: int) -> Mapping[str, Array]:
        """Of a network that travelled. Raises ElectionError if it is not one that this learner trains."""
        if blob.format != TorchSafetensors.name:
            raise ElectionError(f"learner torch goes on from its own networks alone, not from a {blob.format} model")
        try:
            TorchSafetensors.check(blob.data, classes=classes, features=math.prod(row))
        except Spoiled as reason:
            raise ElectionError(f"learner torch cannot go on from this network: {reason}") from None
        model, network = TorchSafetensors.load(blob.data, classes=classes), self.network(row, classes)
        about = model.description
        wanted = self._description(network, classes, about.output)
        if about != wanted:
            raise ElectionError(
                f"learner torch trains {wanted.architecture} {wanted.settings} on rows of {wanted.shape}, and cannot "
                f"go on from a {about.architecture} {about.settings} of {about.shape}; use the same learner"
            )
        return model.arrays

    def _description(self, network: Network, classes: int, output: str = "softmax") -> Description:
        settings = {} if isinstance(self.module, Own) else self._settings()
        settings.pop("shape", None)  # the description has the one that was trained on
        return Description(self.module, settings, network.shape, classes, output)

    def model_of(
        self, network: Network, values: Mapping[str, Array], classes: int, output: str = "softmax", *,
        device: str = "cpu",
    ) -> TorchModel:  # fmt: skip
        """A model of these numbers, as if it had been trained here; it answers on this device."""
        about = self._description(network, classes, output)
        if isinstance(self.module, Own):
            model = OwnModel(about, values, device)
            model.module = network.make(values).eval()
            return model
        fixed = {key: value.numpy() for key, value in network.bare.state_dict().items() if key not in values}
        return TorchModel(about, {**values, **fixed}, device)


plugin = Torch
