"""The time of a step of many ResNets on a GPU, as a replayed graph: with our Triton kernels, and with cuDNN's grouped
convolutions and torch's normalisation.

    python benchmarks/stacked_gpu.py --models 20 60

Needs only torch, numpy and a GPU.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from oneballot.fleet.gpu import vmapped
from oneballot.fleet.models.network import built_in
from oneballot.fleet.train.stacked import Stacked

SHAPE, CLASSES = (3, 32, 32), 10


def milliseconds(step: Callable[[], None], times: int = 10) -> float:
    aside = torch.cuda.Stream()
    with torch.cuda.stream(aside):
        for _ in range(3):
            step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    graph.replay()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(times):
        graph.replay()
    torch.cuda.synchronize()
    return 1000 * (time.perf_counter() - begin) / times


def stepping(name: str, models: int, rows: int) -> Callable[[], None]:
    """A forward and backward pass of many networks, each with `rows` rows."""
    network, device = built_in(name, {}, SHAPE, CLASSES), torch.device("cuda")
    starts = [network.start(seed) for seed in range(models)]
    values = {key: torch.stack([torch.from_numpy(start[key]) for start in starts]).to(device) for key in starts[0]}
    module = network.bare.to(device)
    weights = {key: values[key] for key, _ in module.named_parameters()}
    buffers = {key: value for key, value in values.items() if key not in weights}
    gradients = {key: torch.zeros_like(value) for key, value in weights.items()}
    stacked = Stacked(module, weights, gradients, buffers=buffers)
    x, d = torch.rand(models, rows, *SHAPE, device=device), torch.randn(models, rows, CLASSES, device=device)
    present = torch.ones(models, rows, dtype=torch.bool, device=device)

    def step() -> None:
        stacked.forward(x, present)
        stacked.backward(d)

    return step


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, nargs="+", default=[20, 60])
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--network", default="resnet8")
    options = parser.parse_args()
    torch.backends.cudnn.allow_tf32, torch.backends.cudnn.deterministic = False, True
    print("| models | kernels | without | ratio |\n|---|---|---|---|")
    for models in options.models:
        step = stepping(options.network, models, options.rows)
        ours = milliseconds(step)
        with patch.object(vmapped, "has_kernels", lambda x: False):
            theirs = milliseconds(step)
        print(f"| {models} | {ours:.1f} ms | {theirs:.1f} ms | {theirs / ours:.1f} |", flush=True)
    print(f"{options.network}, {options.rows} rows a model; {torch.cuda.get_device_name()}, torch {torch.__version__}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
