"""Receipts: what a published outcome says about its ballots, and the check of a party's receipt against it."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..ballot.keys import fingerprint
from ..ballot.receipts import Receipt, hash_ballot, hash_code
from ..election.election import Election
from ..election.outcome_files import read_index
from ..errors import OneBallotError
from .log_check import check_log
from .outcome import Outcome

Answer = Literal["counted", "another", "left out", "unknown"]


@dataclass(frozen=True)
class Checked:
    """Whether an outcome has counted the ballot of a receipt, and how that is known."""

    answer: Answer
    sentence: str


def describe_ballots(election: Election, outcome: Outcome) -> dict[str, Any]:
    """Salted hashes of the ballots in this outcome, for its published copy: pairs of a code's and a ballot's hash.

    At L1 the number of voters is secret too. So there are as many pairs as parties on the roster, the missing ones
    random, and none without a roster. At other levels an unsigned ballot, which has no code, is found by its digest.
    """
    salt, private = secrets.token_hex(16), election.level == "L1"
    if private and not election.roster:
        return {"salt": salt, "ballots": None}
    coded = [b for b in outcome.voted.values() if b.code is not None or not private]
    pairs = [
        [secrets.token_hex(32) if b.code is None else hash_code(salt, b.code), hash_ballot(salt, b.code, b.digest)]
        for b in coded
    ]
    missing = len(election.roster) - len(pairs) if private else 0
    pairs += [[secrets.token_hex(32), secrets.token_hex(32)] for _ in range(missing)]
    return {"salt": salt, "ballots": sorted(pairs)}


def check_receipt(receipt: Receipt, folder: Path, *, signer: str | None = None) -> Checked:
    """Look a ballot up in an outcome: by the party's name in a server's own copy, by hashes in a published one.

    Raises OneBallotError if the outcome is of another election, or if its log is broken or missing.
    """
    index = read_index(folder)
    if index["election"] != receipt.election:
        raise OneBallotError(
            f"{folder} is the outcome of another election ({index['election'][:12]}…) than the receipt, which is of "
            f"{receipt.name} ({receipt.election[:12]}…)"
        )
    log = check_log(folder, signer=signer)
    if log.problems:
        raise OneBallotError(f"the log of {folder} is broken, so it shows nothing: {log.problems[0]}")
    if index["voted"]:
        return _by_name(receipt, folder, index)
    entry = next(entry for entry in reversed(log.entries) if "outcome" in entry.facts)
    by = f"entry {entry.number} of its log, of {entry.time}, signed with the key {fingerprint(entry.key)}"
    return _by_hashes(receipt, folder, entry.facts, by)


def _by_name(receipt: Receipt, folder: Path, index: Mapping[str, Any]) -> Checked:
    found = index["voted"].get(receipt.party)
    if found is None:
        reasons = {"withdrawn": "it was withdrawn", "without": "it was left out with --without"}
        known = (reason for names, reason in reasons.items() if receipt.party in index.get(names, ()))
        reason = next(known, "there was none, or it was spoiled")
        return Checked("left out", f"{folder} has not counted a ballot of {receipt.party}: {reason}")
    if found["digest"] == receipt.ballot:
        return Checked("counted", f"{folder} has counted this ballot of {receipt.party}")
    return _another(receipt, folder, f"its ballot has the digest {found['digest']}")


def _by_hashes(receipt: Receipt, folder: Path, facts: Mapping[str, Any], by: str) -> Checked:
    salt, pairs, code = facts.get("salt"), facts.get("ballots"), receipt.code
    if not isinstance(salt, str) or not isinstance(pairs, list) or not all(_is_pair(pair) for pair in pairs):
        why = "at L1 without a roster it must not reveal who voted, and otherwise its server has not listed them"
        return Checked("unknown", f"{folder} says nothing about its ballots: {why}. Ask the server for its log")
    private = isinstance(facts.get("privacy"), dict) and facts["privacy"].get("level") == "L1"
    if code is None and private:
        return Checked("unknown", "an unsigned ballot cannot be found in an outcome at L1. Ask the server for its log")
    if hash_ballot(salt, code, receipt.ballot) in {pair[1] for pair in pairs}:
        return Checked("counted", f"{folder} has counted this ballot of {receipt.party}: {by}")
    if code is not None and hash_code(salt, code) in {pair[0] for pair in pairs}:
        return _another(receipt, folder, by)
    more = "" if code is not None else ". It is not signed, so another ballot in its party's name would not be noticed"
    return Checked("left out", f"{folder} has not counted this ballot of {receipt.party}: {by}{more}")


def _another(receipt: Receipt, folder: Path, how: str) -> Checked:
    return Checked(
        "another",
        f"{folder} has counted another ballot in the name of {receipt.party}: {how}. You have cast again, or someone "
        "else has your key",
    )


def _is_pair(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(isinstance(each, str) for each in value)
