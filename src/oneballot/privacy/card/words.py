"""What neighbouring data are, and what an attacker asks, by unit and adjacency."""

from __future__ import annotations

from ..ledger import TALLY_SERVERS, Ledger
from ..releases import Unit

SAME_ID = "same ID"
"""Replace, where version 0.1 identified single rows by an ID and called the unit a row."""
WATCHED = "watched"
"""Replace, where two servers see who casts a ballot."""
UNIT_WORDS: dict[Unit, str] = {"row": "row", "patient": "patient", "party": "party"}
PROTECTED: dict[Unit, str] = {
    "row": "Each single row of a party's data.",
    "patient": "Each patient: all rows with the same ID together, whatever their number.",
    "party": "Each party's ballot as a whole, and so each of its rows.",
}
COMPARED: dict[tuple[str, str], str] = {
    ("row", "add-remove"): "the data with a row, and the same data without it",
    ("row", "replace"): "the data with a row, and the same data with any other row in its place",
    ("row", SAME_ID): "the data with a row, and the same data with any other content under the same row ID",
    ("row", "swap"): "the data with a row, and the same data with any other row in its place",
    ("patient", "add-remove"): "the data with all rows of a patient, and the same data without any of them",
    ("patient", "replace"): "the data with a patient's rows, and the same data with any other rows under the same ID",
    ("patient", "swap"): "the data with a patient, and the same data with any other patient, with another ID, instead",
    ("party", "add-remove"): "the election with a party, and the same election without it",
    ("party", "replace"): (
        "the election with a party's ballot, and the same election with any other ballot of that party, or an "
        "abstention, in its place"
    ),
    ("party", WATCHED): (
        "the election with a party's ballot, and the same election with any other ballot of that party in its place"
    ),
}
QUESTIONS: dict[tuple[str, str], str] = {
    ("row", "add-remove"): "whether a certain row is in the data",
    ("row", "replace"): "which of two rows is in the data",
    ("row", SAME_ID): "which of two contents a certain row has",
    ("row", "swap"): "which of two rows is in the data",
    ("patient", "add-remove"): "whether a certain patient is in the data",
    ("patient", "replace"): "which of two records a certain patient has",
    ("patient", "swap"): "which of two patients is in the data",
    ("party", "add-remove"): "whether a certain party voted",
    ("party", "replace"): "which of two ballots a certain party cast, or whether it abstained",
    ("party", WATCHED): "which of two ballots a certain party cast",
}


def change_of(ledger: Ledger) -> str:
    """How neighbouring data differ: the ledger's adjacency, SAME_ID or WATCHED."""
    if ledger.unit == "row" and ledger.adjacency == "replace" and any(line.reach == 2 for line in ledger.lines):
        return SAME_ID
    if ledger.unit == "party" and ledger.adjacency == "replace" and ledger.released_to == TALLY_SERVERS:
        return WATCHED
    return str(ledger.adjacency)
