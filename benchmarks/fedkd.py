"""FedKD on MNIST, CIFAR-10 and PneumoniaMNIST, with public data of the same domain and of another; as Markdown.

python benchmarks/fedkd.py --pack DIR                                    # write DIR/NAME.npz from ONEBALLOT_DATA
python benchmarks/fedkd.py --data DIR --only mnist-mlp foreign-mlp --quick --device cpu
python benchmarks/fedkd.py --data DIR --only mnist-mlp mnist-cnn foreign-cnn cifar10 --device cuda

Rows are split by Dirichlet(α). Half of the test set is public (with another domain, Fashion-MNIST's test set; for
PneumoniaMNIST a fifth of the training rows), and the other half is the test set. With --data only torch, numpy,
oneballot.fleet and FedKD's arithmetic are needed; DIR may hold an NPZ file in parts, NAME*.npz. A cell that would start
after --minutes is left out.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from oneballot.fleet.models.network import built_in
from oneballot.fleet.train.engine import train
from oneballot.fleet.train.recipe import Recipe
from oneballot.methods.fedkd.grid import UNIT, Grid, ensemble, largest_logit
from oneballot.methods.fedkd.passes import further_passes
from oneballot.types import Array, Task

ROUNDS, SCALE, PASSES = 100, 200, 5
TEACHER, FINAL = Recipe(epochs=20), Recipe(epochs=60)
FIELDS = ("X", "y", "X_test", "y_test")


@dataclass(frozen=True)
class Experiment:
    title: str
    data: str
    network: str
    parties: int
    alphas: tuple[float, ...]
    augment: tuple[str, ...]
    foreign: str | None = None
    teacher: Recipe = TEACHER
    final: Recipe = FINAL
    variants: tuple[str, ...] = ()  # all


MNIST = Experiment("MNIST", "mnist", "mlp", 20, (1.0, 0.1), ("shift",))
CIFAR = Recipe(epochs=20, batch=64, augment=("crop", "flip"))
EXPERIMENTS = {
    "mnist-mlp": MNIST,
    "mnist-cnn": replace(MNIST, network="cnn"),
    "foreign-mlp": replace(MNIST, title="MNIST, Fashion-MNIST public", foreign="fashion-mnist"),
    "foreign-cnn": replace(MNIST, title="MNIST, Fashion-MNIST public", foreign="fashion-mnist", network="cnn"),
    "pneumonia": Experiment("PneumoniaMNIST", "pneumoniamnist", "mlp", 5, (1.0, 0.1), ("shift",)),
    "cifar10": Experiment(
        "CIFAR-10", "cifar10", "resnet8", 20, (1.0, 0.1), ("crop", "flip"), teacher=CIFAR,
        final=replace(CIFAR, epochs=60),
        variants=("paper: S = 200, γ = 1, τ → ∞", "without noise", "plain mean", f"paper, {PASSES} passes"),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Variant:
    """Settings of `FedKD` under the same names."""

    rounding: str = "ends"
    weights: str = "class-counts"
    temperature: float = np.inf
    gamma: float = np.inf
    centre: bool = False
    passes: int = 1

    def targets(self, logits: list[Array], seen: Array, rng: np.random.Generator) -> tuple[str, Array]:
        """Kind and targets of the final task. logits: of each party on the public rows; seen `(parties, classes)`."""
        grid = Grid(SCALE, self.rounding)  # type: ignore[arg-type]
        points, weight = 0, 0
        for z, n in zip(logits, seen, strict=True):
            if self.centre:
                z = z - z[:, n > 0].mean(axis=1, keepdims=True)
            half_step = grid.half_step(largest_logit(z, n))
            counts = n if self.weights == "class-counts" else np.ones_like(n)
            points = points + grid.half_steps(grid.quantize(z, half_step)) * (counts * half_step)
            weight = weight + counts
        z = ensemble(points, weight, UNIT)
        if self.gamma < np.inf:
            z = z + rng.laplace(scale=1 / self.gamma, size=z.shape)
        if self.temperature == np.inf:
            return "scores", z
        if self.temperature == 0:
            return "labels", z.argmax(axis=1)
        powers = np.exp((z - z.max(axis=1, keepdims=True)) / self.temperature)
        return "soft", powers / powers.sum(axis=1, keepdims=True)


VARIANTS = {
    "paper: S = 200, γ = 1, τ → ∞": Variant(gamma=1.0),
    "paper, equation 4": Variant(gamma=1.0, rounding="zero"),
    "without noise": Variant(),
    "plain mean": Variant(weights="uniform"),
    "τ = 3": Variant(temperature=3.0),
    "labels (τ = 0)": Variant(temperature=0.0),
    "centred": Variant(centre=True),
    f"paper, {PASSES} passes": Variant(gamma=1.0, passes=PASSES),
}


def deal(y: Array, alpha: float, rng: np.random.Generator, parties: int) -> list[Array]:
    """The rows of each party: each class is split by proportions drawn from Dir(α)."""
    pieces: list[list[Array]] = [[] for _ in range(parties)]
    for c in np.unique(y):
        rows = rng.permutation(np.flatnonzero(y == c))
        cuts = (np.cumsum(rng.dirichlet(np.full(parties, alpha)))[:-1] * len(rows)).astype(int)
        for party, piece in zip(pieces, np.split(rows, cuts), strict=True):
            party.append(piece)
    return [np.concatenate(party) for party in pieces]


def cell(what: Experiment, alpha: float, seed: int, options: argparse.Namespace) -> dict[str, float]:
    """One federation: accuracies in %, bytes for each party."""
    rng, data = np.random.default_rng(seed), load(options.data, what.data)
    X, y, tested, truth = (data[f] for f in FIELDS)
    y, order = y.astype(np.int64), rng.permutation(len(tested))
    if options.quick:
        some = rng.permutation(len(y))[:10_000]
        X, y = X[some], y[some]
    if what.data == "pneumoniamnist":
        held = rng.permutation(len(y))
        public, X, y = X[held[: len(y) // 5]], X[held[len(y) // 5 :]], y[held[len(y) // 5 :]]
    else:
        half = order[: len(order) // 2]
        order, public = order[len(order) // 2 :], tested[half]
    if what.foreign:
        foreign = load(options.data, what.foreign)["X_test"]
        public = foreign[rng.permutation(len(foreign))[: len(public)]]
    tested, truth = tested[order], truth[order]
    classes, row = int(y.max()) + 1, X.shape[1:]
    several = further_passes(public, PASSES, what.augment, seed)
    rows = np.concatenate([X, public, several, tested])
    first, last = len(X), len(X) + PASSES * len(public)
    parties = [party for party in deal(y, alpha, rng, what.parties) if len(party)]
    settings = {"shape": list(row)} if what.network == "mlp" else {}
    network = built_in(what.network, settings, row, classes)
    queries = np.arange(first, len(rows))
    teacher, final = what.teacher, what.final
    if options.quick:
        teacher, final = replace(teacher, epochs=10), replace(final, epochs=30, batch=64)
    seen = np.stack([np.bincount(y[party], minlength=classes) for party in parties])
    trained = [i for i, n in enumerate(seen) if (n > 0).sum() > 1]
    tasks = [Task(parties[i], y[parties[i]], seed=1000 * seed + i, ask=queries) for i in trained]
    # As in an election, a party of a single class predicts the logarithms of its frequencies.
    logits = [np.tile(np.where(n > 0, 0.0, np.log(1e-12)), (len(queries), 1)) for n in seen]
    answers = train(network, rows, tasks, teacher, classes, device=options.device, what="teachers").logits
    for i, answer in zip(trained, answers, strict=True):
        logits[i] = answer
    accuracies = {
        "parties alone": 100 * float(np.mean([(z[last - first :].argmax(1) == truth).mean() for z in logits]))
    }
    finals: dict[int, dict[str, Task]] = {}
    for name in what.variants or VARIANTS:
        variant, count = VARIANTS[name], len(public) * VARIANTS[name].passes
        kind, targets = variant.targets([z[:count] for z in logits], seen, np.random.default_rng(seed))
        task = Task(first + np.arange(count), targets, kind, seed=1000 * seed + 900, ask=np.arange(last, len(rows)))  # type: ignore[arg-type]
        finals.setdefault(variant.passes, {})[name] = task
    for passes, some in finals.items():  # the same number of steps for any number of passes
        recipe = replace(final, augment=what.augment, epochs=max(1, final.epochs // passes))
        answers = train(
            network, rows, list(some.values()), recipe, classes, device=options.device, what="finals"
        ).logits
        accuracies |= {name: 100 * float((z.argmax(1) == truth).mean()) for name, z in zip(some, answers, strict=True)}
    contents = Grid(SCALE, "ends").size(len(public) * classes) + 8 + 8 * classes
    weights = sum(p.numel() for p in network.bare.parameters())
    return accuracies | {"bytes": contents, "FedAvg": ROUNDS * 2 * 4 * weights}


def load(folder: Path, name: str) -> dict[str, Array]:
    parts = [np.load(path) for path in sorted(folder.glob(f"{name}*.npz"))]
    if not parts:
        raise SystemExit(f"no {name}*.npz in {folder}: set ONEBALLOT_DATA and run with --pack {folder}")
    data = {f: np.concatenate([p[f] for p in parts if f in p]) for f in FIELDS if any(f in p for p in parts)}
    return {f: v[:, None] if f[0] == "X" and v.ndim == 3 else v for f, v in data.items()}


def pack(folder: Path) -> None:
    """Images and labels as NPZ, in parts of at most 20,000 rows."""
    from oneballot_lab.data.registry import load as read

    folder.mkdir(parents=True, exist_ok=True)
    private = {e.data for e in EXPERIMENTS.values()}
    for name in sorted(private | {"fashion-mnist"}):
        data = read(name)
        for i in range(0, len(data.y) if name in private else 0, 20_000):
            np.savez_compressed(folder / f"{name}-{i:06}.npz", X=data.X[i : i + 20_000], y=data.y[i : i + 20_000])
        np.savez_compressed(folder / f"{name}-test.npz", X_test=data.X_test, y_test=data.y_test)


def table(what: Experiment, cells: dict[float, list[dict[str, float]]]) -> str:
    """One row for each variant, one column for each α: mean ± sample standard deviation."""
    some = next(iter(cells.values()))[0]
    sizes = {k: some[k] for k in ("bytes", "FedAvg")}
    lines = [f"### {what.title}, {what.network}, {what.parties} parties", ""]
    lines += ["| | " + " | ".join(f"α = {a:g}" for a in cells) + " |", "|---|" + "---|" * len(cells)]
    for name in [k for k in some if k not in sizes]:
        shown = []
        for runs in cells.values():
            values = np.array([run[name] for run in runs])
            shown.append(f"{values.mean():.2f} ± {values.std(ddof=1) if len(values) > 1 else 0:.2f}")
        lines.append(f"| {name} | {' | '.join(shown)} |")
    ratio = sizes["FedAvg"] / sizes["bytes"]
    seeds = min(map(len, cells.values()))
    return "\n".join([
        *lines, "",
        f"Seeds: {seeds}. A ballot holds {sizes['bytes']:,} bytes ({PASSES} passes: nearly {PASSES} times that); "
        f"{ROUNDS} rounds of FedAvg transfer {sizes['FedAvg'] / 1e6:,.1f} MB per party, {ratio:,.0f} times as much.",
        "",
    ])  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="a folder of NPZ files")
    parser.add_argument("--pack", type=Path, help="write the NPZ files there, from ONEBALLOT_DATA")
    parser.add_argument("--only", nargs="+", default=["mnist-mlp"], choices=list(EXPERIMENTS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0, help="the first seed")
    parser.add_argument("--quick", action="store_true", help="10,000 private rows, 10 epochs, the final model 30 of 64")
    parser.add_argument("--minutes", type=float, default=7.0)
    parser.add_argument("--device", default="cpu", choices=["cuda", "cpu"])
    options = parser.parse_args()
    if options.pack:
        pack(options.pack)
        return 0
    torch.set_num_threads(1)
    begin = time.perf_counter()
    for name in options.only:
        what, cells = EXPERIMENTS[name], {}
        # All α of a seed first, so that a run that is cut short has whole rows.
        for seed in range(options.first_seed, options.first_seed + options.seeds):
            for alpha in what.alphas:
                if time.perf_counter() - begin > 60 * options.minutes:
                    print(f"<!-- left out: {name}, seed {seed}, α = {alpha:g} -->", flush=True)
                    continue
                start = time.perf_counter()
                cells.setdefault(alpha, []).append(cell(what, alpha, seed, options))
                print(f"<!-- {name}, seed {seed}, α = {alpha:g}: {time.perf_counter() - start:.0f} s -->", flush=True)
        if cells:
            print(table(what, cells), flush=True)
    machine = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
    print(f"{machine}, torch {torch.__version__}, {time.perf_counter() - begin:.0f} s.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
