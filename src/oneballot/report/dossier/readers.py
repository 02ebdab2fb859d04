"""Who can read a ballot and who has signed it, in words for the dossier."""

from __future__ import annotations

from typing import Any

from ...ballot.keys import fingerprint
from ...election.election import Election
from ...election.tallies import SIDES, Tallies
from .record import Reader, Signer


def reader(election: Election) -> Reader:
    if election.tallies is not None:
        return _two_readers(election.tallies)
    if not election.encrypted:
        return Reader(who="Anyone who has the file: it is not encrypted.", encrypted=False)
    key = str(election.server_key)
    who = "Only the holder of the server's secret key. The host of the box sees its size and when it arrived."
    return Reader(who=who, encrypted=True, key=key, fingerprint=fingerprint(key))


def _two_readers(tallies: Tallies) -> Reader:
    keys = " and ".join(fingerprint(tallies.key_of(side)) for side in SIDES)
    who = (
        "Nobody alone: each of its two parts is encrypted to one of two servers, and is random without the other. Both "
        f"servers together could read it. Their keys have the fingerprints {keys}. The host of the box sees the "
        "party's name."
    )
    return Reader(who=who, encrypted=True)


def reader_of_file(facts: dict[str, Any], election: Election | None) -> Reader:
    if facts["encrypted_to"]:
        key = str(facts["encrypted_to"]).partition(",")[0]
        who = "Only the holder of the server's secret key."
        return Reader(who=who, encrypted=True, key=key, fingerprint=fingerprint(key))
    if election is not None and election.tallies is not None:
        return _two_readers(election.tallies)
    if election is not None and election.encrypted:
        key = str(election.server_key)
        who = "This copy is not encrypted: anyone who has it can read it. The delivered ballot is encrypted to the key."
        return Reader(who=who, encrypted=False, key=key, fingerprint=fingerprint(key))
    return Reader(who="Anyone who has the file: it is not encrypted.", encrypted=False)


def signer(key: str | None) -> Signer:
    if key is None:
        return Signer(who="Nobody: the election has no roster, so ballots need no signature.")
    return Signer(who="The party, with its own key.", key=key, fingerprint=fingerprint(key))
