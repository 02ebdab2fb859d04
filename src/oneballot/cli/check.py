from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..report.text import plural, print_facts, print_json
from .reading import reads_files
from .terminal import AsJson, ElectionFile, session

if TYPE_CHECKING:
    from ..election.election import Election

EXAMPLE = "Example: oneballot check election.toml --data mine.csv --map Alter=age --label-map 0=benign,1=malignant"


@reads_files("data")
def command(
    election: ElectionFile,
    data: Annotated[
        Path | None, typer.Option(help="Your rows: report what a cast would make of them, or all that is wrong.")
    ] = None,
    parties: Annotated[
        int | None, typer.Option(min=1, help="How many parties will vote, if the roster and quorum do not say.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check an election, and your own file against it.

    Describes its method, its guarantee and what to expect. Nothing is trained. The printed digest must be the same at
    every party and at the server.
    """
    with session(as_json):
        from ..election.advice import advise, expect_of_parties
        from ..election.checks import check_quorum
        from ..election.election import Election
        from ..election.signing import read_author

        agreed = Election.read(election)
        author = read_author(election, agreed)
        check_quorum(agreed)
        voters = parties or agreed.parties
        guarantee = agreed.guarantee
        facts: dict[str, Any] = {
            "election": agreed.name,
            "digest": agreed.digest,
            "author": None if author is None else author.key,
            "classes": list(agreed.classes),
            "public_rows": agreed.public_rows,
            "method": agreed.describe()["method"],
            "learners": {  # those that are trained
                role: learner
                for role, learner in agreed.describe()["learners"].items()
                if role != "all" or agreed.roles - agreed.learners.keys()
            },
            "start": agreed.describe().get("start"),
            "roster": sorted(agreed.roster),
            "revoked": len(agreed.revoked),
            "server_key": agreed.server_key,
            "tallies": None if agreed.tallies is None else agreed.tallies.describe(),
            "quorum": agreed.quorum,
            "deadline": agreed.deadline,
            "level": agreed.level,
            **_votes(agreed),
            "epsilon": None if guarantee is None or agreed.privacy.rehearsal else guarantee.epsilon(),
            "ballot": agreed.ballot_ledger.describe(whole=True),
            "outcome": [] if guarantee is None else guarantee.ledger().describe(),
            "expect": [*expect_of_parties(agreed, parties), *advise(agreed, voters)],
        }
        if data is not None:
            from ..party.preflight import preflight

            facts["data"] = preflight(agreed, data)
        if as_json:
            print_json(facts)
            return
        settings = {name: facts[name] for name in ("method", "learners")}
        shown = {
            "election": f"{facts['election']}, digest {facts['digest']}",
            "signed with": [] if author is None else str(author),
            "classes": ", ".join(map(str, facts["classes"])),
            "public rows": f"{facts['public_rows']:,}",
            **{name: _settings(value) or "none is trained" for name, value in settings.items()},
            "starts from": []
            if facts["start"] is None
            else f"the model of an outcome, sha256 {facts['start']['sha256'][:16]}…",
            "who may vote": ", ".join(facts["roster"]) or "anyone: the roster is empty",
            "encrypted": _encrypted(agreed),
            **_two_tallies(agreed),
            "quorum": str(facts["quorum"]),
            "deadline": [] if agreed.deadline is None else str(agreed.deadline),
            "a ballot": facts["ballot"],
            "the outcome": facts["outcome"] if agreed.level == "L1" and not agreed.shared else [],
            "in all": _in_all(agreed),
            "expect": facts["expect"],
            **({} if data is None else _describe_file(facts["data"])),
        }
        print_facts(shown)


def _describe_file(file: dict[str, Any]) -> dict[str, str | list[str]]:
    """Lines about a party's file."""
    patients = f" of {file['patients']:,} patients (IDs)" if file["patients"] is not None else ""
    counts = file["rows_per_class"]
    missing = [name for name, count in counts.items() if not count]
    odd = [f"{each['column']}: {plural(each['values'], 'value')} {each['how']}" for each in file["odd_values"]]
    return {
        "your file": f"{file['file']}, {file['rows']:,} rows{patients}",
        "its classes": [
            ", ".join(f"{name}: {count:,}" for name, count in counts.items()),
            *([f"none of {', '.join(missing)}"] if missing else []),
        ],
        "odd values": odd[:10] + ([f"… and {len(odd) - 10} more"] if len(odd) > 10 else []) or "none",
        "not used": ", ".join(file["ignored_columns"]) or "none: the election names every column of the file",
        "you would": f"ABSTAIN: {file['abstains']}" if file["abstains"] else f"cast {file['ballot_carries']}",
    }


def _two_tallies(election: Election) -> dict[str, list[str]]:
    from ..election.tallies import least_ballots
    from ..party.shared_count import advise_parties

    tallies = election.tallies
    if tallies is None:
        return {}
    budget = f"; the budget covers {plural(tallies.openings, 'opening')}" if election.guarantee is not None else ""
    least, differ = least_ballots(election), plural(tallies.min_difference, "party", "parties")
    return {
        "two tallies": [
            "a ballot is two shares of its sums, and each server alone sees random numbers; only totals are opened",
            f"a total is opened from {plural(least, 'ballot')} on: the larger of quorum and min_difference",
            f"an opening must differ from every other by {differ} or more{budget}",
            *filter(None, [advise_parties(election)]),
            *(["NOT YET: two tallies need a roster (oneballot keys add)"] if not election.roster else []),
        ]
    }


def _encrypted(election: Election) -> str:
    from ..ballot.keys import fingerprint

    if election.tallies is not None:
        keys = [fingerprint(election.tallies.key_of(side)) for side in ("a", "b")]
        return f"to two servers, fingerprints {keys[0]} (a) and {keys[1]} (b)"
    if election.encrypted:
        return f"to the server's key, fingerprint {fingerprint(str(election.server_key))}"
    if election.level == "L1" and election.server_key is None:
        return "NOT YET, so no party can cast: at L1 ballots hold raw votes, and server_key is missing"
    return "no: anyone who can read the box can read the ballots"


def _votes(election: Election) -> dict[str, Any]:
    from ..privacy.guarantee import VotesGuarantee

    guarantee = election.guarantee
    if not isinstance(guarantee, VotesGuarantee):
        return {"queries": None, "mechanism": None, "scale": None}
    return {"queries": guarantee.queries, "mechanism": guarantee.query.name, "scale": guarantee.query.scale}


def _in_all(election: Election) -> list[str]:
    privacy, guarantee, openings, silos = election.privacy, election.guarantee, 1, election.privacy.max_silos_per_person
    if election.tallies is not None:  # the ledger of an opening is about all parties of a person
        openings, silos = election.tallies.openings, 1
    if guarantee is None or privacy.rehearsal or openings * privacy.tallies * silos == 1:
        return []
    from ..privacy.ledger import format_epsilon

    what = (
        f"{max(privacy.tallies, openings)} {'openings' if openings > 1 else 'tallies'}"
        if max(privacy.tallies, openings) > 1
        else f"{silos} parties of one person"
    )
    return [f"epsilon {format_epsilon(guarantee.epsilon())} for {what} together"]


def _settings(value: dict[str, Any]) -> str:
    from ..election.toml import toml_key, toml_value

    return ", ".join(f"{toml_key(k)} = {toml_value(v)}" for k, v in value.items() if v is not None)
