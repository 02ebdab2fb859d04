"""The record behind a release dossier. Its JSON schema is published as docs/dossier.schema.json."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ...privacy.card import GuaranteeCard
from ...privacy.ledger import Ledger

FORMAT: Literal[1] = 1
"""Increase it when a reader of the JSON file would misread a newer one."""
NonNegative = Annotated[int, Field(ge=0)]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Agreement(_Record):
    """The election, as far as a reader of the page needs it."""

    name: str
    digest: str
    method: str
    settings: dict[str, Any] = Field(description="The settings of the method.")
    learners: dict[str, dict[str, Any]] = Field(
        description="By role, the learners that this party trains; those of the election if `rows` is None."
    )
    classes: list[str]
    public_rows: NonNegative


class ColumnUse(_Record):
    """A column of the file. use: feature, label, row ID, or ignored. encoding: how it becomes numbers."""

    name: str
    use: Literal["feature", "label", "row ID", "ignored"]
    encoding: str = ""
    odd_values: list[str] = Field(default=[], description="How many values were clipped, missing or unseen.")


class Rows(_Record):
    """Which rows and columns of the party's file were used. Exact numbers: for the party alone."""

    file: str
    sha256: str | None = Field(description="SHA-256 of the file as it was read; None if it is not a regular file.")
    in_file: NonNegative
    dropped: dict[str, NonNegative] = Field(description="Rows left out, by reason.")
    held_back: NonNegative = Field(description="Rows kept back to test the outcome (--holdout).")
    withheld: dict[str, NonNegative] = Field(description="Rows left out because their class has too few, by class.")
    used: NonNegative
    by_class: dict[str, NonNegative] = Field(description="Rows used, by class.")
    ids: NonNegative | None = Field(description="Different row IDs among the rows used, if rows have IDs.")
    columns: list[ColumnUse]


class Table(_Record):
    header: list[str]
    rows: list[list[str]]


class Content(_Record):
    """An array or a model in the ballot."""

    name: str
    type: str
    shape: list[int] | None = Field(description="None for a model.")
    bytes: NonNegative | None = Field(description="None before training, if the size depends on it.")
    meaning: str
    checkable: bool = Field(description="Whether a person can check it by reading.")
    note: str = Field(default="", description="How to check it, or why that is impossible.")
    sample: Table | None = None
    smallest_leaf: int | None = Field(default=None, description="The fewest training rows in a leaf, if it is known.")
    sha256: str | None = Field(default=None, description="SHA-256 of the content; None before training.")


class Reader(_Record):
    """Who can read the ballot."""

    who: str
    encrypted: bool
    key: str | None = None
    fingerprint: str | None = None


class Signer(_Record):
    who: str
    key: str | None = None
    fingerprint: str | None = None


class Guarantee(_Record):
    """What is guaranteed, in words, and the ledger with the numbers."""

    words: list[str]
    ledger: Ledger
    card: GuaranteeCard | None = Field(default=None, description="The guarantee card; None if only a ballot was given.")


class Audited(BaseModel):
    """What `oneballot audit --json` measured in this election."""

    model_config = ConfigDict(frozen=True)

    class Attack(BaseModel):
        model_config = ConfigDict(frozen=True)
        canaries: NonNegative
        guesses: NonNegative
        right: NonNegative
        epsilon: float

    election: str
    claimed: float
    delta: float
    unit: str
    confidence: float
    runs: NonNegative
    with_noise: Attack
    without_noise: Attack
    holds: bool
    catches: bool
    released: str = "votes"
    noticed: float | None = Field(default=None, description="Noise below this part of the stated scale is noticed.")
    findings: list[str] = []
    not_attacked: list[str] = []


class Attacks(_Record):
    """What an attacker can do."""

    measured: Literal["audit", "membership", "nothing"]
    words: list[str]
    audit: Audited | None = None
    command: str | None = Field(default=None, description="The command that would measure it.")


class StatedCount(_Record):
    """An exact number of rows in the ballot."""

    array: str
    group: str
    rows: int
    ids: int | None = None
    small: bool


class Counts(_Record):
    """The smallest exact number of rows in the ballot, against the threshold."""

    min_count: NonNegative
    handling: Literal["refuse", "suppress", "allow"]
    exempt: str | None = Field(default=None, description="Why no count is tested, if so.")
    unknown: str | None = Field(default=None, description="Why the counts are not known, if so.")
    stated: list[StatedCount]
    smallest: int | None = Field(description="The smallest number above 0.")


class Seals(_Record):
    """What ties this record to the ballot."""

    file: str
    bytes: NonNegative
    file_sha256: str = Field(description="SHA-256 of the file that is delivered, or was inspected.")
    ballot_digest: str = Field(description="SHA-256 of the ballot's manifest, which lists the hashes of all contents.")


class Dossier(_Record):
    """What a ballot releases about a party's rows, to whom, and with which guarantee. Not for publication."""

    model_config = ConfigDict(frozen=True, extra="forbid", title="OneBallot release dossier")

    format: Literal[1] = FORMAT
    page: str = Field(description="The name of the page that this file belongs to.")
    written: datetime
    version: str = Field(description="The version of OneBallot.")
    stage: Literal["planned", "refused", "sealed"]
    refusal: str | None = Field(default=None, description="Why nothing may be sent.")
    abstained: str | None = Field(default=None, description="The reason, if the ballot is an abstention.")
    party: str
    election: Agreement | None = Field(description="None if only the ballot was given.")
    method: str
    rows: Rows | None = Field(description="None if they are unknown, as of a ballot without its outbox.")
    contents: list[Content]
    also_sent: dict[str, str] = Field(description="What the ballot states beside its contents.")
    bytes: NonNegative | None = Field(description="The size of the ballot.")
    seconds: float | None = Field(
        default=None, description="How long the party trained, if that is known. The ballot does not state it."
    )
    readable_by: Reader
    signed_by: Signer
    guarantee: Guarantee
    attacks: Attacks
    counts: Counts
    rows_held: NonNegative | None = Field(
        default=None, description="The party's rows that the ballot holds verbatim; before training, at most."
    )
    seals: Seals | None = None


def json_schema() -> str:
    """The text of docs/dossier.schema.json."""
    made = Dossier.model_json_schema(mode="serialization")
    return json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", **made}, indent=2) + "\n"
