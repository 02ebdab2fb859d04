"""What comes of an election: the final model, who voted, and the count that a later tally goes on from.

On disk an outcome is a folder whose `outcome.json` is replaced last and names the other files by their content, so that
a process killed at any moment leaves the old outcome or the new one.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import plugins
from ..ballot.archive import pack, unpack
from ..election.schema import Class, Schema, as_plain
from ..errors import DataError, OneBallotError, Spoiled
from ..privacy.ledger import Ledger
from ..runtime.files import lock_folder, write_atomic
from ..types import Array, Blob, Contents, Count
from .sandbox import attach_sandbox

if TYPE_CHECKING:
    from .model import FinalModel

FORMAT = 1
OURS = re.compile(r"(model|count)-[0-9a-f]{16}\.|\.oneballot-part-")
"""The names of files that are this module's to remove."""


@dataclass(frozen=True)
class CountedBallot:
    """A ballot that was accepted."""

    name: str
    digest: str
    bytes: int
    abstained: str | None = None
    casts: int = 1


@dataclass(frozen=True)
class Outcome:
    model: FinalModel
    election: str
    classes: tuple[Class, ...]
    schema: Schema | None
    ledger: Ledger
    voted: Mapping[str, CountedBallot]
    spoiled: Mapping[str, str] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    count: Count = field(default_factory=Count, repr=False)
    noised: tuple[tuple[Array, int], ...] = field(default=(), repr=False, compare=False)
    """At L1 the votes that noise was drawn on, each with its unit: in memory only, for accounts not to be published."""

    @property
    def bytes(self) -> int:
        """What all parties sent."""
        return sum(vote.bytes for vote in self.voted.values())

    def summary(self) -> dict[str, Any]:
        """Who voted and what came of each ballot, for machines."""
        return {
            "election": self.election,
            "privacy": self.ledger.model_dump(mode="json"),
            "counted": [party for party, vote in self.voted.items() if vote.abstained is None],
            "abstained": {party: vote.abstained for party, vote in self.voted.items() if vote.abstained is not None},
            "spoiled": dict(self.spoiled),
            "without": list(self.without),
            "bytes": self.bytes,
        }

    def drawn(self, times: int) -> Outcome:
        """The same, with the ledger of so many tallies on its votes, if that is more than it tells."""
        once = self.ledger
        if once.level != "L1" or times <= once.drawn:
            return self
        lines = tuple(line.model_copy(update={"times": line.times // once.drawn}) for line in once.lines)
        return replace(self, ledger=once.model_copy(update={"lines": lines, "drawn": 1}).times(times))

    def published(self) -> Outcome:
        """What may be given to others: the model, the schema, the ledger. No votes, and nobody is named.

        At L1 the count holds raw votes, and who has voted, or was spoiled, tells who takes part.
        """
        return replace(self, voted={}, spoiled={}, without=(), count=Count(), noised=())

    def read_rows(self, path: Path, *, labelled: bool) -> tuple[Array, Array | None]:
        """A file's rows, encoded for the model, and, if asked for and there, its class numbers."""
        if self.schema is None:
            raise DataError(f"this outcome has no schema, so {path} cannot be read; use Outcome.load and model.predict")
        table = self.schema.read(path)
        rows = self.schema.encode(table.columns, table.source)
        known = labelled and set(self.schema.label_columns) <= set(table.columns)
        return rows, self.schema.labels(table.columns, self.classes, table.source) if known else None

    def name(self, chances: Array) -> list[Class]:
        """The class of each row; in a multi-label election all that it has, as in "a;b"."""
        if not self.model.multilabel_:
            return [self.classes[i] for i in chances.argmax(axis=1)]
        return [";".join(str(c) for c, has in zip(self.classes, row, strict=True) if has) for row in chances >= 0.5]

    def compare(self, X: Array, y: Array) -> tuple[Array, Array]:
        """By row and class: is it among the labels that are known, and was it found, both `(rows, classes)`."""
        chances = self.model.predict_proba(X)
        if self.model.multilabel_:
            return y != 0, (y != 0) & ((chances >= 0.5) == (y > 0))
        known = y[:, None] == np.arange(len(self.classes))
        return known, known & (chances.argmax(axis=1) == y)[:, None]

    def save(self, folder: str | Path) -> None:
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        with lock_folder(folder):
            self._save(folder)

    def _save(self, folder: Path) -> None:
        blob = self.model.dump()
        plugins.find("formats", blob.format).check(
            blob.data, classes=len(self.classes), features=math.prod(self.model.features_)
        )  # nothing is written that nobody could open
        secret = bool(self.voted)  # what ballots hold, and names: the server's own
        model = _put(folder, f"model.{blob.format}", blob.data)
        count = _put(folder, "count.zip", pack(_flat(self.count)), secret=secret)
        learner: Any = self.model.learner
        described = {
            "format": FORMAT,
            "election": self.election,
            "privacy": self.ledger.model_dump(mode="json"),
            "classes": list(self.classes),
            "model": {"file": model, "format": blob.format, "features": list(self.model.features_),
                      "kind": None if self.model.kind_ is None else str(self.model.kind_),
                      "learner": {"name": learner.name, **asdict(learner)}, "seed": self.model.seed,
                      "multilabel": self.model.multilabel_},
            "count": count,
            "roll": list(self.count.by_party),
            "voted": {party: vars(vote) for party, vote in self.voted.items()},
            "spoiled": dict(self.spoiled),
            "without": list(self.without),
            "schema": None if self.schema is None else self.schema.model_dump(mode="json"),
        }  # fmt: skip
        write_atomic(folder / "outcome.json", json.dumps(described, indent=1, default=as_plain).encode(),
                    0o600 if secret else 0o644)  # fmt: skip
        for stale in folder.iterdir():
            if OURS.match(stale.name) and stale.name not in (model, count):
                stale.unlink(missing_ok=True)

    @classmethod
    def load(cls, folder: str | Path) -> Outcome:
        from .model import FinalModel

        folder = Path(folder)
        described = _read_json(folder)
        try:
            kept, shape = described["model"], described["model"]["features"]
            blob = Blob(kept["format"], _get(folder, kept["file"]))
            kind = plugins.find("formats", blob.format)
            kind.check(blob.data, classes=len(described["classes"]), features=math.prod(shape))
            settings = {k: v for k, v in kept["learner"].items() if k != "name"}
            learner = plugins.find("learners", kept["learner"]["name"])(**settings)
            native = attach_sandbox(kind.load(blob.data, classes=len(described["classes"])))
            schema = described["schema"]
            return cls(
                model=FinalModel(learner, kept["seed"]).trained(
                    native,
                    described["classes"],
                    tuple(shape),
                    kept.get("kind"),
                    multilabel=kept.get("multilabel", False),
                ),
                election=described["election"],
                classes=tuple(described["classes"]),
                schema=None if schema is None else Schema.model_validate(schema),
                ledger=Ledger.model_validate(described["privacy"]),
                voted={party: CountedBallot(**vote) for party, vote in described["voted"].items()},
                spoiled=described["spoiled"],
                without=tuple(described["without"]),
                count=_unflat(unpack(_get(folder, described["count"])), described["roll"]),
            )
        except (AttributeError, IndexError, KeyError, OSError, TypeError, ValueError, Spoiled) as error:
            raise OneBallotError(f"{folder} is not an outcome that `oneballot tally` wrote: {error!r}") from None


def exists(folder: Path) -> bool:
    return (folder / "outcome.json").is_file()


def _read_json(folder: Path) -> dict[str, Any]:
    try:
        described: dict[str, Any] = json.loads((folder / "outcome.json").read_bytes())
    except FileNotFoundError:
        raise OneBallotError(
            f"there is no outcome in {folder}; `oneballot tally … --out {folder}` writes one"
        ) from None
    except (ValueError, RecursionError) as error:
        raise OneBallotError(f"{folder / 'outcome.json'} is damaged: {error}") from None
    if not isinstance(described, dict) or described.get("format") != FORMAT:
        described = described if isinstance(described, dict) else {}
        raise OneBallotError(f"{folder} is of format {described.get('format')}, this version reads {FORMAT}")
    return described


def _put(folder: Path, name: str, data: bytes, *, secret: bool = False) -> str:
    """Write a file under a name that tells its content; return the name."""
    stem, suffix = name.split(".", 1)
    named = f"{stem}-{hashlib.sha256(data).hexdigest()[:16]}.{suffix}"
    write_atomic(folder / named, data, 0o600 if secret else 0o644)
    return named


def _get(folder: Path, named: str) -> bytes:
    data = (folder / Path(named).name).read_bytes()
    if hashlib.sha256(data).hexdigest()[:16] != named.split("-", 1)[1].split(".", 1)[0]:
        raise OneBallotError(f"{folder / named} was altered since it was written; tally again")
    return data


def _flat(count: Count) -> dict[str, Array | Blob]:
    sums: dict[str, Array | Blob] = {f"sum.{name}": value for name, value in count.sums.items()}
    return sums | {f"roll.{i}": Blob("zip", pack(kept)) for i, kept in enumerate(count.by_party.values())}


def _unflat(flat: Contents, roll: Sequence[str]) -> Count:
    count = Count()
    for name, value in flat.items():
        kind, _, rest = name.partition(".")
        if isinstance(value, Blob) and kind == "roll":
            count.by_party[roll[int(rest)]] = unpack(value.data)
        elif not isinstance(value, Blob) and kind == "sum":
            count.sums[rest] = value
    return count
