"""The result of an election: the final model, who voted, the ledger, and the count that a later tally resumes from."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import plugins
from ..ballot.archive import unpack
from ..data.read import Table
from ..election.frames import complete, encode_labels
from ..election.outcome_files import (
    FORMAT,
    INDEX,
    digest_of,
    read_content,
    read_index,
    read_model,
    write_content,
    write_index,
)
from ..election.schema import Schema, as_plain
from ..election.targets import Target
from ..election.targets import describe as describe_target
from ..election.targets import read as read_target
from ..errors import DataError, OneBallotError, Spoiled
from ..interfaces import HasReplaceableMembers
from ..models import Dumpable
from ..notebook import Shown
from ..privacy.ledger import Ledger
from ..runtime.files import lock_folder
from ..types import Array, Blob, Class, Count
from .count_file import pack_count, unflatten
from .documents import write_documents
from .documents.facts import ModelFile
from .influence import Influence
from .rows_held import model_rows_held, refuse_rows
from .sandbox import attach_sandbox
from .temperature import LARGEST, SMALLEST
from .verdict import Verdict

if TYPE_CHECKING:
    from .model import TrainedModel


Record = Callable[[bytes, Mapping[str, str]], None]
"""Takes the text of outcome.json, and the SHA-256 of the model and of the count."""


@dataclass(frozen=True)
class CountedBallot:
    """A ballot that was accepted."""

    name: str
    digest: str
    bytes: int
    abstained: str | None = None
    casts: int = 1
    code: str | None = None
    """The code of its receipt (`ballot.receipts`); None if it is not signed, or of a version before 0.6."""

    def describe(self) -> dict[str, Any]:
        """Plain values, as outcome.json holds them."""
        return {name: value for name, value in vars(self).items() if name != "code" or value is not None}


@dataclass(frozen=True)
class LabelledRows:
    """Encoded rows, their labels as the target encodes them, and the same rows of the file with all its columns."""

    X: Array
    y: Array
    table: Table


@dataclass(frozen=True)
class Outcome(Dumpable, Shown):
    """What a tally returns, saves and loads."""

    model: TrainedModel
    election: str
    classes: tuple[Class, ...]
    schema: Schema | None
    ledger: Ledger
    voted: Mapping[str, CountedBallot]
    spoiled: Mapping[str, str] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    withdrawn: tuple[str, ...] = ()
    """Parties that have withdrawn (`server.withdraw`). A tally that resumes from this outcome leaves them out."""
    count: Count = field(default_factory=Count, repr=False)
    noised: tuple[tuple[Array, int], ...] = field(default=(), repr=False, compare=False)
    """At L1, in memory only: the votes that noise was added to, each with its unit. Not to be published."""
    verdict: Verdict | None = None
    """What is known about the model without labels; None in outcomes of versions before 0.3."""
    influence: Influence | None = None
    """What each party changed, and the certificate; None before 0.6. At L1 it has no noise: not to be published."""
    warnings: tuple[str, ...] = ()
    """What the tally warned of; empty before 0.7. They may name parties: not to be published."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """What the election says in public: name, method, learners, public rows, versions; empty before 0.5."""

    @property
    def bytes(self) -> int:
        """The size of all ballots."""
        return sum(ballot.bytes for ballot in self.voted.values())

    def dump(self) -> Blob:
        """The serialized final model."""
        return self.model.dump()

    def summary(self) -> dict[str, Any]:
        """Which ballots were counted, abstained, spoiled or left out, as plain values."""
        return {
            "election": self.election,
            "privacy": self.ledger.model_dump(mode="json"),
            "counted": [party for party, ballot in self.voted.items() if ballot.abstained is None],
            "abstained": {party: b.abstained for party, b in self.voted.items() if b.abstained is not None},
            "spoiled": dict(self.spoiled),
            "without": list(self.without),
            **({"withdrawn": list(self.withdrawn)} if self.withdrawn else {}),
            "bytes": self.bytes,
            **({} if self.temperature is None else {"temperature": self.temperature}),
            "verdict": None if self.verdict is None else self.verdict.describe(),
            **self._described_influence(),
            **({"warnings": list(self.warnings)} if self.warnings else {}),
        }

    def _described_influence(self) -> dict[str, Any]:
        """What each party changed; at L1 marked, since it has no noise."""
        secret = {"do_not_publish": True} if self.ledger.level == "L1" else {}
        return {} if self.influence is None else {"influence": {**self.influence.describe(), **secret}}

    def with_draws(self, times: int) -> Outcome:
        """The same outcome with the ledger of this many tallies, unless its ledger already states as many."""
        ledger = self.ledger
        if ledger.level != "L1" or times <= ledger.drawn:
            return self
        lines = tuple(line.model_copy(update={"times": line.times // ledger.drawn}) for line in ledger.lines)
        return replace(self, ledger=ledger.model_copy(update={"lines": lines, "drawn": 1}).times(times))

    def published(self, *, rows: bool = False) -> Outcome:
        """The part that may be published: the model, the schema and the ledger, without votes and names.

        At L1 the count holds raw votes, and the list of ballots reveals the parties. Raises OneBallotError if the model
        holds rows of parties as they are, unless `rows` permits it.
        """
        if not rows:
            refuse_rows(self, "use published(rows=True)")
        verdict = None if self.verdict is None else self.verdict.published()
        nobody: Any = {"voted": {}, "spoiled": {}, "without": (), "withdrawn": (), "warnings": ()}
        return replace(self, **nobody, count=Count(), noised=(), verdict=verdict, influence=None)

    def read_table(self, path: Path) -> Table:
        """The columns of a file, as the schema reads it."""
        if self.schema is None:
            raise DataError(f"this outcome has no schema, so {path} cannot be read; use Outcome.load and model.predict")
        return self.schema.read(path)

    def read_labelled(self, path: Path) -> LabelledRows:
        """The rows of a file that have a label. Raises DataError if the file has no labels."""
        table, schema = self.read_table(path), self.schema
        assert schema is not None
        if missing := [name for name in schema.label_columns if name not in table.columns]:
            raise DataError(
                f"{path} has no label column {', '.join(missing)}, so the model cannot be tested on it; "
                "add the labels, or use `oneballot predict`"
            )
        table = complete(schema.model_copy(update={"id": None}), self.target, table)
        return LabelledRows(
            schema.encode(table.columns, table.source), encode_labels(schema, self.target, table), table
        )

    def probabilities(self, X: Any) -> Array:
        """The probability of each class for encoded rows, such as `Data.X`: `(rows, classes)`, ordered as `classes`."""
        return self.model.probabilities(X)

    @property
    def temperature(self) -> float | None:
        """What calibrates the model's probabilities (`server.temperature`); None if it is not calibrated."""
        return self.model.temperature_

    @property
    def target(self) -> Target:
        """What the model predicts."""
        return self.model.target_

    def class_names(self, probabilities: Array) -> list[Any]:
        """The prediction of each row: its class; with several labels per row all predicted classes, such as "a;b"."""
        return self.target.decode(probabilities)

    def save(self, folder: str | Path, record: Record | None = None) -> None:
        """Write the outcome. A process killed at any moment leaves the old outcome or the new one.

        `record` is called just before the new outcome replaces the old one (`server.log.save`).
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        with lock_folder(folder):
            self._save(folder, record)

    def _save(self, folder: Path, record: Record | None) -> None:
        blob, features = self.model.dump(), math.prod(self.model.features_)
        plugins.find("formats", blob.format).check(blob.buffer, classes=len(self.classes), features=features)
        secret = bool(self.voted)  # only the server may read the ballots' contents and the parties' names
        held = model_rows_held(self, blob=blob).rows
        model = write_content(folder, f"model.{blob.format}", blob, secret=bool(held))
        counted = pack_count(self.count)
        count = write_content(folder, "count.zip", counted, secret=secret)
        learner: Any = self.model.learner
        index = {
            "format": FORMAT,
            "election": self.election,
            "privacy": self.ledger.model_dump(mode="json"),
            "classes": list(self.classes),
            "model": {
                "file": model,
                "format": blob.format,
                "features": list(self.model.features_),
                "kind": None if self.model.row_dtype_ is None else str(self.model.row_dtype_),
                "learner": {"name": learner.name, **asdict(learner)},
                "seed": self.model.seed,
                **describe_target(self.target),
                **({"sparse": True} if self.model.sparse_ else {}),
                **({} if self.model.temperature_ is None else {"temperature": self.model.temperature_}),
            },
            "count": count,
            "roll": list(self.count.by_party),
            "voted": {party: ballot.describe() for party, ballot in self.voted.items()},
            "spoiled": dict(self.spoiled),
            "without": list(self.without),
            **({"withdrawn": list(self.withdrawn)} if self.withdrawn else {}),
            "schema": None if self.schema is None else self.schema.model_dump(mode="json"),
            "verdict": None if self.verdict is None else self.verdict.describe(),
            **self._described_influence(),
            **({"warnings": list(self.warnings)} if self.warnings else {}),
            **({"about": dict(self.about)} if self.about else {}),
        }
        text = json.dumps(index, indent=1, default=as_plain).encode()
        model_digest = digest_of(blob)
        if record is not None:
            record(text, {"model": model_digest, "count": digest_of(counted)})
        write_index(folder, text, {model, count}, secret=secret)
        write_documents(folder, self, ModelFile(model, blob.format, model_digest, held))

    @classmethod
    def load(cls, folder: str | Path) -> Outcome:
        folder = Path(folder)
        index = read_index(folder)
        try:
            schema = None if index["schema"] is None else Schema.model_validate(index["schema"])
            model = _load_model(folder, index, schema)
            if isinstance(model.model_, HasReplaceableMembers):
                model.model_.name_members(index["voted"])
            return cls(
                model=model,
                election=index["election"],
                classes=tuple(index["classes"]),
                schema=schema,
                ledger=Ledger.model_validate(index["privacy"]),
                voted={party: CountedBallot(**ballot) for party, ballot in index["voted"].items()},
                spoiled=index["spoiled"],
                without=tuple(index["without"]),
                withdrawn=tuple(index.get("withdrawn", ())),
                count=unflatten(unpack(read_content(folder, index["count"])), index["roll"]),
                verdict=None if index.get("verdict") is None else Verdict.read(index["verdict"]),
                influence=None if index.get("influence") is None else Influence.read(index["influence"]),
                warnings=tuple(map(str, index.get("warnings", ()))),
                about=dict(index.get("about", {})),
            )
        except FileNotFoundError as error:
            raise OneBallotError(
                f"{folder} is incomplete: {error.filename} is missing; copy the outcome again, or tally again"
            ) from None
        except (AttributeError, IndexError, KeyError, OSError, TypeError, ValueError, Spoiled) as error:
            raise OneBallotError(f"{folder} is not an outcome that `oneballot tally` wrote: {error!r}") from None


def exists(folder: Path) -> bool:
    return (folder / INDEX).is_file()


def _load_model(folder: Path, index: dict[str, Any], schema: Schema | None) -> TrainedModel:
    from .model import model_class

    about, classes = index["model"], index["classes"]
    blob = read_model(folder, index)
    format_class = plugins.find("formats", blob.format)
    format_class.check(blob.data, classes=len(classes), features=math.prod(about["features"]))
    settings = {k: v for k, v in about["learner"].items() if k != "name"}
    learner = plugins.find("learners", about["learner"]["name"])(**settings)
    model = attach_sandbox(format_class.load(blob.data, classes=len(classes)))
    target = read_target(about, classes)
    final = model_class(target)(learner, about["seed"], schema)
    features, sparse, temperature = tuple(about["features"]), bool(about.get("sparse")), about.get("temperature")
    if temperature is not None and not SMALLEST <= float(temperature) <= LARGEST:
        raise ValueError(f"temperature {temperature}: expected {SMALLEST} to {LARGEST}")
    return final.trained(model, target, features, about.get("kind"), sparse=sparse, temperature=temperature)
