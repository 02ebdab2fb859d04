"""Large models stay on disk: a tally of twelve ballots of 60 MB needs less than 500 MB of memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import oneballot as ob
from oneballot.ballot.archive import pack, pack_parts, zip_up
from oneballot.ballot.seal import seal
from oneballot.errors import Spoiled
from oneballot.formats.kernel import KernelModel
from oneballot.formats.safetensors import ConstantModel
from oneballot.influence import MOST_SHARE
from oneballot.methods.ensemble.average import EnsembleModel
from oneballot.methods.ensemble.format import EnsembleFormat
from oneballot.methods.ensemble.open_model import OpenEnsemble
from oneballot.runtime.spill import LARGE, Spill
from oneballot.types import Blob, StoredBlob

MEGABYTE = 2**20
TALLY = """
import json, re, sys, warnings
import oneballot as ob
from oneballot.boxes.folder import Folder
from oneballot.server.files import tally_files
from pathlib import Path
warnings.simplefilter("ignore")
folder = Path(sys.argv[1])
import numpy as np
public = np.zeros((60, 784), dtype=np.uint8)
method = ob.Ensemble(weights=sys.argv[2])
election = ob.Election(classes=[0, 1], public=public, method=method, learner=ob.Kernel(), quorum=1)
outcome = tally_files(election, Folder(folder / "box"), folder / "outcome", beside=folder)
status = Path("/proc/self/status").read_text()  # getrusage would include the process that started this one
peak = int(re.search(r"VmHWM:\\s+(\\d+)", status).group(1)) // 1024
print(json.dumps({"peak": peak, "voted": len(outcome.voted), "spoiled": outcome.spoiled}))
"""


def constant(*values: float) -> Blob:
    return ConstantModel(np.array(values)).dump()


def test_a_stored_model_is_equal_to_the_one_in_memory() -> None:
    blob, other = Blob("skops", bytes(range(256)) * (LARGE // 256 + 1)), Blob("skops", b"x" * (LARGE + 7))
    spill = Spill()
    small, stored, second = (spill.store(each) for each in (Blob("skops", b"small"), blob, other))
    assert type(small) is Blob
    assert isinstance(stored, StoredBlob)
    assert (stored.data, second.data, stored.size) == (blob.data, other.data, blob.size)
    assert stored == blob == stored != second
    assert hash(stored) == hash(blob)
    assert b"".join(stored.chunks()) == bytes(second.buffer)[:0] + bytes(stored.buffer) == blob.data
    assert "bytes" in repr(stored)


@pytest.mark.parametrize("kind", ["average", "open", "open, without claims"])
def test_an_ensemble_of_stored_models_has_the_same_file(kind: str) -> None:
    blobs = [constant(0.25, 0.75), constant(0.5, 0.5), constant(1, 0)]
    spill = Spill()
    stored = [spill.write(blob.format, [blob.data]) for blob in blobs]

    def make(members: list[Blob]) -> EnsembleModel | OpenEnsemble:
        if kind == "average":
            return EnsembleModel(members, np.ones((1, 3, 2)))
        claims = members if kind == "open" else []
        names = [f"{i:02x}" * 8 for i in range(3)]
        return OpenEnsemble(
            members, claims, np.ones(3), np.ones(len(claims)), names, 2, (3,), power=1.5, floor=0.1, cap=MOST_SHARE
        )

    plain, dumped = make(list(blobs)).dump(), make(list(stored)).dump()
    assert isinstance(dumped, StoredBlob)
    assert dumped.data == plain.data
    EnsembleFormat.check(dumped.buffer, classes=2, features=3)
    loaded = EnsembleFormat.load(dumped.buffer, classes=2)
    assert all(isinstance(blob, StoredBlob) for blob in loaded.members)
    X = np.zeros((4, 3), dtype=np.float32)
    np.testing.assert_array_equal(loaded.predict_proba(X), make(list(blobs)).predict_proba(X))
    damaged = bytearray(plain.data)
    damaged[-1] ^= 1
    with pytest.raises(Spoiled):
        EnsembleFormat.check(memoryview(bytes(damaged[:-1])), classes=2, features=3)


def test_a_count_is_packed_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    sums = {"sum.votes": np.arange(6)}
    kept = {"model": Blob("skops", b"m" * 1000), "seen": np.arange(3)}
    parts = {f"roll.{i}": kept for i in range(3)}
    flat = {**sums, **{name: Blob("zip", pack(contents)) for name, contents in parts.items()}}
    assert pack_parts(sums, parts) == Blob("zip", pack(flat))
    monkeypatch.setattr("oneballot.ballot.archive.IN_MEMORY", 100)
    stored = pack_parts(sums, parts)
    assert isinstance(stored, StoredBlob)
    assert stored.data == pack(flat)
    assert pack_parts({}, {}).data == zip_up({})


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems count memory differently")
@pytest.mark.parametrize("weights", ["seen", "open"])
def test_twelve_ballots_of_60_mb_need_less_than_500_mb(weights: str, tmp_path: Path) -> None:
    public = np.zeros((60, 784), dtype=np.uint8)
    method = ob.Ensemble(weights=weights)
    election = ob.Election(classes=[0, 1], public=public, method=method, learner=ob.Kernel(), quorum=1)
    (tmp_path / "box").mkdir()
    claim = constant(0.5, 0.5)
    for i in range(12):
        rows = np.random.default_rng(i).integers(0, 256, (75_000, 784), dtype=np.uint8)
        model = KernelModel(rows, np.full((len(rows), 2), 1e-9), np.array([0.5, 0.5]), 1e-6).dump()
        contents = {"seen": np.array([10, 10]), "model": model}
        if weights == "open":
            contents |= {"claim.0": claim, "claim.1": claim}
        ballot = seal(contents, election, f"party-{i}")
        assert len(ballot.sealed) > 56 * MEGABYTE
        (tmp_path / "box" / f"party-{i}.ballot").write_bytes(ballot.sealed)
    command = [sys.executable, "-c", TALLY, str(tmp_path), weights]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    result = json.loads(done.stdout.splitlines()[-1])
    assert (result["voted"], result["spoiled"]) == (12, {})
    assert result["peak"] < 500
