"""Fuzz targets, which receive untrusted bytes: `unseal`, the `check` of every format and the `count` of every method.

A target has seeds, files that honest parties write, and a call that returns or raises Spoiled. Anything else is a
finding: another error, a hang, too much memory, a written file.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import sys
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from sklearn.datasets import load_iris

import oneballot as ob
from oneballot import plugins
from oneballot.ballot.archive import ARRAYS, as_contents, as_files, unzip, zip_up
from oneballot.ballot.keys import public_text
from oneballot.ballot.seal import MANIFEST, seal, unseal
from oneballot.errors import Spoiled
from oneballot.formats.forest import as_forest
from oneballot.formats.safetensors import ConstantModel
from oneballot.server.context import TallyContext
from oneballot.types import Ballot, Blob, Task

X, Y = load_iris(return_X_y=True)
X = X.astype(np.float32)
PUBLIC, CLASSES, FEATURES = X[::5], 3, X.shape[1]
TREE = ob.Sklearn("DecisionTreeClassifier", {"max_depth": 3})
MLP = ob.Torch("mlp", settings={"shape": [FEATURES], "hidden": [3]}, epochs=1, device="cpu")
DISTILLED = ob.DOSFL(steps=1, epochs=1, batch=3, local_epochs=1)

LEARNERS = {
    "tree": TREE,
    "forest": ob.Sklearn("RandomForestClassifier", {"n_estimators": 2, "max_depth": 2}),
    "logistic": ob.Sklearn("LogisticRegression"),
    "svc": ob.Sklearn("SVC"),
    "neighbours": ob.Sklearn("KNeighborsClassifier"),
    "histograms": ob.Sklearn("HistGradientBoostingClassifier", {"max_iter": 2}),
    "xgboost": ob.XGBoost(rounds=2),
    "lightgbm": ob.LightGBM(rounds=2),
    "kernel": ob.Kernel(),
    "torch": MLP,
}
METHODS: dict[str, tuple[Any, Any]] = {
    "fedkt": (ob.FedKT(), TREE),
    "fedkt-odds": (ob.FedKT(open_vote="odds"), TREE),
    "fedkt-counts": (ob.FedKT(open_vote="off", weights="class-counts"), TREE),
    "fedkt-models": (ob.FedKT(ballot="models"), ob.Kernel()),
    "fedkd": (ob.FedKD(), MLP),
    "ensemble": (ob.Ensemble(), ob.Kernel()),
    "decoder": (ob.Decoder(steps=2, hidden=3, latent=2), TREE),
    "dense": (ob.Dense(epochs=1, generator_steps=1, batch=4), MLP),
    "dosfl": (DISTILLED, MLP),
    "analytic": (ob.Analytic(), None),
    "analytic-ridge": (ob.Analytic(solver="ridge"), None),
    "neighbours": (ob.Neighbours(), None),
}


@dataclass(frozen=True)
class Target:
    seeds: tuple[bytes, ...]
    call: Callable[[bytes], object]

    def accepts(self, data: bytes) -> bool:
        """Whether the call accepts the bytes; False if it raises Spoiled."""
        try:
            self.call(data)
        except Spoiled:
            return False
        return True


@cache
def target(name: str) -> Target:
    group, _, rest = name.partition(":")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {"unseal": _unseal, "check": _check, "count": _count}[group](rest)


def names() -> list[str]:
    checks = [f"check:{name}" for name in plugins.names("formats")]
    return ["unseal:clear", "unseal:encrypted", *checks, *(f"count:{name}" for name in METHODS)]


def _election(method: str) -> ob.Election:
    settings, learner = METHODS[method]
    return ob.Election(range(CLASSES), PUBLIC, method=settings, **({} if learner is None else {"learner": learner}))


def _unseal(how: str) -> Target:
    election, key = _election("fedkt"), None
    if how == "encrypted":
        key = X25519PrivateKey.generate()
        election = replace(election, server_key=public_text(key))
    sealed = ob.cast(election, X, Y, party="clinic-a").sealed
    empty = seal({}, election, "clinic-b", reason="no rows").sealed
    return Target((sealed, empty), lambda data: unseal(data, election, key))


@cache
def _models() -> dict[str, list[bytes]]:
    """Seeds for each format: files that honest parties write."""
    blobs = [ConstantModel(np.array([0.2, 0.3, 0.5])).dump()]
    for learner in LEARNERS.values():
        model = learner.fit_many(X, [Task(np.arange(len(Y)), Y)], CLASSES)[0]
        blobs.append(model.dump())
        if (forest := as_forest(model)) and forest != blobs[-1]:
            blobs.append(forest)
    for method in ("analytic", "ensemble"):
        election = _election(method)
        blobs.append(ob.tally(election, [ob.cast(election, X, Y, party="a")]).model.dump())
    cast = ob.cast(_election("decoder"), X, Y, party="a")
    blobs += [content for content in cast.contents.values() if isinstance(content, Blob)]
    by_format: dict[str, list[bytes]] = {}
    for blob in blobs:
        by_format.setdefault(blob.format, []).append(blob.data)
    return by_format


def _check(name: str) -> Target:
    form = plugins.find("formats", name)

    def call(data: bytes) -> None:
        form.check(data, classes=CLASSES, features=FEATURES)
        if form.inert and name != "decoder":  # the server loads these in its own process; decoders do not predict
            with np.errstate(all="ignore"):
                form.load(data, classes=CLASSES).predict_proba(PUBLIC)

    return Target(tuple(_models()[name]), call)


def _count(name: str) -> Target:
    """The bytes are a ballot's files without the manifest, so that hashes do not stop mutations of the contents."""
    election = _election(name)
    contents = ob.cast(election, X, Y, party="clinic-a").contents
    ctx = TallyContext(election)

    def call(data: bytes) -> None:
        files = unzip(data) if any(isinstance(c, Blob) for c in contents.values()) else {ARRAYS: data}
        with np.errstate(all="ignore"):
            election.method.count(Ballot("clinic-a", as_contents(files), "0" * 64, None, b""), ctx)

    files = as_files(contents)
    return Target((zip_up(files) if files.keys() != {ARRAYS} else files[ARRAYS],), call)


def altered(data: bytes, alter: Callable[[bytes], bytes], pick: int) -> bytes:
    """Alter the bytes; in a zip, alter one of its files and correct the checksums and hashes."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > MAX_TOTAL:
                return alter(data)
            files = {name: archive.read(name) for name in archive.namelist()}
        name = sorted(files)[pick % len(files)]
        files[name] = alter(files[name])
        if name != MANIFEST and MANIFEST in files:
            manifest = json.loads(files[MANIFEST])
            manifest["files"] = {n: hashlib.sha256(d).hexdigest() for n, d in files.items() if n != MANIFEST}
            files[MANIFEST] = json.dumps(manifest).encode()
        return zip_up(files)
    except Exception:  # not a readable zip
        return alter(data)


MAX_TOTAL = 1 << 20
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def forbid_files() -> None:
    """Make every later attempt to write a file a finding."""

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITES
        if writes or event in ("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.chmod"):
            raise RuntimeError(f"untrusted bytes caused {event} {arguments}")

    sys.addaudithook(hook)
