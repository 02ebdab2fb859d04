"""The sentences of a dossier: what is guaranteed, and what an attacker can do."""

from __future__ import annotations

from ...election.election import Election
from ...party.preview import MODEL_REVEALS
from ...privacy.ledger import Ledger
from ..guarantee import election_card
from .record import Attacks, Audited, Guarantee

MEMBERSHIP = f"{MODEL_REVEALS[0].upper()}{MODEL_REVEALS[1:]}. These figures were measured on other data, not on yours."
UNMEASURED = (
    "At L0 there is no noise, so nothing is promised. OneBallot has not measured an attack on this type of ballot: "
    "assume that someone who knows most of your rows could learn something about the others."
)
MODEL_ONLY = "The guarantee below is for those who see the final model only."
EXACT_VOTES = {
    True: "This ballot holds exact votes. They are protected by encryption and by trust in the server, which adds "
    f"noise when it counts. {MODEL_ONLY}",
    False: "This ballot holds exact votes and is not encrypted: anyone who can read the box or has the file reads "
    f"them. The server adds noise only when it counts. {MODEL_ONLY}",
    None: "This ballot holds exact votes. The server adds noise only when it counts.",
}
"""By whether ballots are encrypted; None if the election is unknown."""


def describe_guarantee(ledger: Ledger, election: Election | None) -> Guarantee:
    words = []
    if ledger.level == "L0" and election is not None and election.shared:
        words.append(
            "There is no guarantee, because no noise is added: anyone who has both partials learns the exact total of "
            "all ballots. Neither server alone learns anything of this ballot."
        )
    elif ledger.level == "L0" and election is None:
        words.append("There is no guarantee: no noise is added. Everyone who can read the ballot must be trusted.")
    elif ledger.rehearsal:
        words.append("This is a rehearsal and NOT PRIVATE: its noise can be reproduced from its seed.")
    elif ledger.level == "L1" and ledger.epsilon is None:
        words.append(EXACT_VOTES[None if election is None else election.encrypted])
    stated = ledger
    if election is not None and ledger.level == "L1" and election.guarantee and not ledger.rehearsal:
        stated = election.guarantee.planned()
        words += stated.describe()
    elif ledger.level != "L0":
        words += ledger.describe()
    if election is not None and election.guarantee is not None:
        words += election.guarantee.forecast(election.parties)
    card = None if election is None else election_card(election, casts=_casts(ledger, election))
    return Guarantee(words=words, ledger=stated, card=card)


def _casts(ledger: Ledger, election: Election) -> int:
    """How many casts a ballot states, if its ledger is the election's; otherwise 1."""
    return ledger.drawn if ledger.level == "L2" and ledger.agrees_with(election.ballot_ledger) else 1


def describe_attacks(ledger: Ledger, election: Election | None, models: bool, audit: Audited | None) -> Attacks:
    if audit is not None:
        return Attacks(measured="audit", words=_audit_words(audit), audit=audit)
    if ledger.level == "L0":
        words = [MEMBERSHIP] if models else [UNMEASURED]
        if election is not None and election.method.why_not:
            words.append(f"Why the method has no guarantee: {election.method.why_not}.")
        return Attacks(measured="membership" if models else "nothing", words=words)
    text = "The audit was not run for this page. It attacks this election's noise with worst-case rows."
    command = "oneballot audit election.toml --json > audit.json"
    again = "Run it, and write this page again with --audit audit.json; or let --audit run do both."
    return Attacks(measured="nothing", words=[text, again], command=command)


def _audit_words(audit: Audited) -> list[str]:
    noisy, bare = audit.with_noise, audit.without_noise
    words = [
        f"An attacker who may choose the worst data for this election guessed {noisy.right:,} of {noisy.guesses:,} "
        f"secrets right. That proves an epsilon of at least {noisy.epsilon:.3f} with {audit.confidence:.0%} "
        f"confidence; the election claims at most {audit.claimed:.3f} at delta {audit.delta:g}.",
        f"Almost without noise the same attack guessed {bare.right:,} of {bare.guesses:,} right, which proves at least "
        f"{bare.epsilon:.3f}.",
    ]
    if not audit.holds:
        refuted = "THE CLAIM IS REFUTED: do not send the ballot, and report this as a vulnerability."
        return [refuted, *audit.findings, *words]
    words.append("The attack does not refute the claim. That is no proof of it.")
    if audit.noticed is not None:
        words.append(
            f"It could not have noticed noise of more than {audit.noticed:.0%} of the stated scale: that passes in "
            "more than 5 % of such audits, by simulation with all noise weaker alike."
        )
    elif not audit.catches:
        words.append("It is inconclusive: it had too few canaries to refute the claim even without noise.")
    if audit.not_attacked:
        words.append(f"It did not attack: {'; '.join(audit.not_attacked)}.")
    return words
