"""What a guarantee does not protect, in the order in which it matters. docs/privacy.md has the same list."""

from __future__ import annotations

from ..ledger import MODEL_USERS, TALLY_SERVERS, Ledger
from .bounds import often, pair_guess_bound, twice_guess_bound
from .words import SAME_ID, change_of

NOTHING_PROTECTED = (
    "Whether a person is in the data, and what that person's rows hold: ballots and models may reveal both.",
    "The numbers of rows and of classes that a ballot states, if its method sends them.",
    "That a party takes part.",
    "Encryption hides a ballot on its way and in the box. It hides nothing from the server or from users of the model.",
)
REHEARSED = ("Everything that an election without noise reveals (level L0). Without `rehearsal` the noise is secret.",)
ALWAYS = (
    "Settings that somebody chose by looking at private rows, such as learners, columns or ranges.",
    "Time: how long a party computes, and when. Its log, and the sizes of files other than ballots.",
    "What is true of people in general, or follows from other people's rows, such as a relative's: the model may show "
    "it whether or not a person takes part.",
    "Public rows, which everyone holds as they are, and figures about labelled test rows, which have no noise.",
    "Anything that a plug-in method sends besides what the ledger lists.",
    "Errors and lies. A party that lies can make the model wrong, and one that changes the software does not protect "
    "its own rows.",
)


def list_limits(ledger: Ledger, epsilon: float, delta: float) -> list[str]:
    """Sentences about what this ledger does not promise."""
    pair, twice = often(pair_guess_bound(epsilon, delta)), often(twice_guess_bound(epsilon, delta))
    if ledger.level == "L1" and ledger.released_to == MODEL_USERS:
        first = [
            "Anything from the server, or from others who can read ballots: they see the exact votes of every party. "
            "Where ballots are encrypted, these are the holders of its key; otherwise, all who can read the box.",
            *_limits_of_parties(ledger, pair),
        ]
    else:
        first = _limits_of_parties(ledger, pair) if ledger.unit == "party" else _limits_of_rows(ledger, pair)
    if ledger.released_to == TALLY_SERVERS:
        first = [
            "Anything from both servers together, or from others who hold both their keys: they read every ballot.",
            *first,
        ]
    again = f"Several elections over the same rows: their costs add up. With two like this, a guess is right {twice}."
    return [*first, again, *ALWAYS]


def _limits_of_rows(ledger: Ledger, pair: str) -> list[str]:
    if ledger.unit == "patient":
        group = f"A person with several IDs. With two, a guess about that person is right {pair}."
        meaning = ["Whatever an ID does not stand for: with an ID for each visit, a visit is protected, not a person."]
    else:
        group = f"Several rows of one person. With two, a guess about that person is right {pair}."
        meaning = []
    kept = {
        "add-remove": "Which content a row has that is known to be there: this counts as a removal and an addition, "
        f"and a guess about it is right {pair}.",
        "replace": "How many rows a party has.",
        SAME_ID: "How many IDs a party has, and which ones. Being swapped for a person with another ID is another "
        'promise (adjacency = "swap").',
        "swap": "How many IDs a party has.",
    }[SAME_ID if ledger.unit == "patient" and ledger.adjacency == "replace" else change_of(ledger)]
    return [
        group,
        *meaning,
        kept,
        "A person whose rows are at more parties than stated above, also the same rows under another party's name.",
        "A party as a whole, such as what most of its rows have in common.",
        "That a party takes part, and that its cast stopped, for instance because of an unknown label.",
    ]


def _limits_of_parties(ledger: Ledger, pair: str) -> list[str]:
    named = [] if ledger.adjacency == "add-remove" else ["Who is on the roster, and how many parties there are."]
    if ledger.released_to == TALLY_SERVERS:
        named.append("Who casts a ballot, and who abstains: both servers see it, and so do those who can read the box.")
    return [
        f"A person whose rows are at several parties. With two, a guess about that person is right {pair}.",
        *named,
        "That there is an outcome: a quorum that is just met, or just missed, reveals how many parties voted.",
    ]
