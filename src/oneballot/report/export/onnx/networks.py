"""Networks in a graph, traced by torch.onnx."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from ....errors import ExportError, MissingExtra
from ....formats.torch_safetensors import TorchModel
from .graph import OPSET, Graph

if TYPE_CHECKING:
    from onnx import ModelProto
    from torch import nn


def add_network(g: Graph, model: TorchModel, rows: str, dtype: np.dtype[Any]) -> str:
    """Probabilities `(rows, classes)` of a built-in network for encoded rows of any shape."""
    about = model.description
    (logits,) = g.inline(
        traced(model.module, about.shape, tokens=model.takes == "tokens"), _inputs(g, model, rows, dtype)
    )
    logits = g.cast(logits, np.float64)
    return g.add("Sigmoid", logits) if about.output == "sigmoid" else g.softmax(logits)


def add_encoder(g: Graph, encoder: Any, rows: str, dtype: np.dtype[Any]) -> str:
    """The input of the last linear layer of a frozen network, `(rows, features)`."""
    import torch

    if encoder.network is None:
        raise ExportError("the model has a torch module of your own as encoder, which cannot be expressed in ONNX")
    model: TorchModel = encoder.network
    last = [part for part in model.module.modules() if isinstance(part, torch.nn.Linear)][-1]

    class Features(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = model.module

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            kept: list[torch.Tensor] = []
            hook = last.register_forward_pre_hook(lambda _, given: kept.append(given[0].flatten(1)))
            self.network(x)
            hook.remove()
            return kept[0]

    shape = model.description.shape
    (features,) = g.inline(traced(Features(), shape, tokens=model.takes == "tokens"), _inputs(g, model, rows, dtype))
    return features


def _inputs(g: Graph, model: TorchModel, rows: str, dtype: np.dtype[Any]) -> str:
    """Rows in the shape and type that the network takes: tokens as integers, bytes as numbers from 0 to 1."""
    x = g.add("Reshape", rows, np.array([0, *model.description.shape]))
    if model.takes == "tokens":
        return g.cast(x, np.int32)
    x = x if dtype == np.float32 else g.cast(x, np.float32)
    return g.add("Mul", x, np.float32(1 / 255)) if dtype == np.uint8 else x


def traced(module: nn.Module, shape: tuple[int, ...], *, tokens: bool) -> ModelProto:
    """A module as an ONNX model with one input and one output, for any number of rows."""
    try:
        import onnxscript  # noqa: F401
        import torch
    except ImportError:
        raise MissingExtra("Export of networks to ONNX", "onnx,torch") from None

    sample = torch.zeros((2, *shape), dtype=torch.int32 if tokens else torch.float32)
    quiet = logging.getLogger("torch.onnx")
    level = quiet.level
    quiet.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), torch.no_grad():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                module.eval(),
                (sample,),
                dynamo=True,
                opset_version=OPSET,
                dynamic_shapes=({0: torch.export.Dim("rows")},),
                verbose=False,
            )
    except Exception as error:  # the exporter wraps whatever a module raises
        raise ExportError(f"torch.onnx cannot express the network: {str(error).splitlines()[0][:200]}") from None
    finally:
        quiet.setLevel(level)
    assert program is not None
    made: ModelProto = program.model_proto
    return made
