"""What one of the two servers does: list the ballots, compare lists, add up its shares, add noise, write a partial."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ...ballot.keys import fingerprint, public_text
from ...ballot.shares import as_residues
from ...election.checks import check_quorum
from ...election.election import Election
from ...election.names import check_party_name
from ...election.tallies import SIDES, Side, Tallies, check_two_tallies_can_start
from ...errors import ElectionError, KeyFileError, QuorumError
from ...interfaces import Box
from ...runtime.files import check_writable, write_atomic
from ..context import TallyContext
from ..prefetch import Prefetcher, Source
from .counting import ShareCounter, count_shares, list_ballots
from .noise import draw_noise
from .openings import Openings, check_opening
from .partial import Partial
from .roll import Ballots, Roll, differences, with_numbers
from .signing import check_own_key

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey


@dataclass(frozen=True)
class Shared:
    """What a server has done. partial: None if it has only listed its ballots. differing: sentences."""

    counter: ShareCounter
    roll: Roll
    roll_path: Path
    partial: Partial | None = None
    partial_path: Path | None = None
    differing: tuple[str, ...] = ()
    reused: bool = False


def tally_share(
    election: Election,
    box: Box,
    out: Path,
    side: Side,
    key: X25519PrivateKey | None,
    *,
    beside: Path,
    other: Path | None = None,
    without: tuple[str, ...] = (),
    over_budget: bool = False,
    early: bool = True,
    signer: Ed25519PrivateKey | None = None,
) -> Shared:
    """List this server's ballots in the folder `out` and, given the other server's list, write its partial there.

    The ballots that both servers list are counted. An opening is recorded beside the election; the same ballots give
    the same partial again, without new noise. signer: the key that signs list and partial, the server's log key.
    """
    opener = check_share(election, side, key)
    check_own_key(election, side, signer)
    left_out = tuple(sorted(map(check_party_name, without)))
    roll = None if other is None else Roll.read(other, election, other_side(side))
    agreed = frozenset() if roll is None else with_numbers(roll.every)
    check_writable(out)
    out.mkdir(parents=True, exist_ok=True)
    with Prefetcher(box) as source:
        counter = count_shares(election, source, side, opener, agreed=agreed, without=left_out)
    layout = counter.settle()
    own, path = list_ballots(counter).signed(signer), out / f"ballots-{side}.json"
    own.write(path)
    if roll is None:
        return Shared(counter, own, path)
    differing = tuple(differences(own, roll))
    check_agreed(election, counter, own.every & roll.every, differing, early=early)
    assert layout is not None, "a quorum of ballots has sums"
    openings = Openings(election, side, beside)
    with openings.lock():
        earlier, counted = openings.read(), with_numbers(own.every & roll.every)
        same = next((each for each in earlier if each.ballots == counted), None)
        if same is None:
            check_opening(election, counted, earlier, over_budget=over_budget)
            partial = make_partial(election, counter, own.every & roll.every, len(earlier) + 1).signed(signer)
            openings.keep(partial)
        else:
            partial = same if signer is None else same.signed(signer)
    written = out / f"partial-{side}"
    write_atomic(written, partial.dump(), 0o600)
    return Shared(counter, own, path, partial, written, differing, reused=same is not None)


def other_side(side: Side) -> Side:
    return SIDES[1 - SIDES.index(side)]


def side_of(tallies: Tallies, key: X25519PrivateKey | None) -> Side:
    """The server with this secret key. Raises KeyFileError if it is neither."""
    found = [side for side in SIDES if key is not None and public_text(key) == tallies.key_of(side)]
    if not found:
        keys = " or ".join(f"{fingerprint(tallies.key_of(side))} ({side})" for side in SIDES)
        raise KeyFileError(f"this election has two tallies: give the secret key of one of them, fingerprint {keys}")
    return found[0]


def check_share(election: Election, side: Side, key: X25519PrivateKey | None) -> X25519PrivateKey:
    """The server's key. Raises an error, before any ballot is read, if this server cannot count its shares."""
    if election.tallies is None:
        raise ElectionError("this election has no [tallies], so ballots have no shares; tally without --share")
    check_quorum(election)
    check_two_tallies_can_start(election)
    expected = election.tallies.key_of(side)
    if key is None:
        raise KeyFileError(
            f"the shares of server {side} are encrypted to the key with fingerprint {fingerprint(expected)}: give its "
            "secret key (--key FILE)"
        )
    if public_text(key) != expected:
        raise KeyFileError(
            f"the shares of server {side} are encrypted to the key with fingerprint {fingerprint(expected)}; the given "
            f"key has fingerprint {fingerprint(public_text(key))}"
        )
    return key


def check_agreed(
    election: Election,
    counter: ShareCounter,
    agreed: frozenset[tuple[str, str, bool]],
    differing: tuple[str, ...],
    *,
    early: bool,
) -> None:
    """Raise QuorumError for too few ballots on both lists, or before the deadline."""
    if not early:
        counter.check_deadline()
    if (votes := len(with_numbers(agreed))) >= election.quorum:
        return
    reasons = [*differing, *(f"spoiled: {name}: {reason}" for name, reason in counter.spoiled.items())]
    raise QuorumError(
        f"{votes} ballots are on both servers' lists, but the quorum is {election.quorum}: wait for more, and exchange "
        "new lists." + "".join(f"\n  {reason}" for reason in reasons)
    )


def make_partial(
    election: Election, counter: ShareCounter, agreed: frozenset[tuple[str, str, bool]], opening: int
) -> Partial:
    """The sum of this server's shares of the agreed ballots, with its noise. Every call draws new noise."""
    layout = counter.settle()
    assert layout is not None
    with TallyContext(election) as ctx:
        noise = draw_noise(ctx, layout, counter.side, opening)
    parties = {party for party, _, _ in agreed}
    return Partial(
        election.digest,
        counter.side,
        opening,
        layout,
        counter.total(layout) + as_residues(noise, layout.bits),
        {party: each for party, each in counter.voted.items() if party in parties},
        dict(counter.spoiled),
        tuple(party for party in counter.left_out if party in counter.seen),
    )


def make_partials(
    election: Election, source: Source, keys: dict[Side, X25519PrivateKey], without: tuple[str, ...] = ()
) -> tuple[Partial, Partial]:
    """The partials of both servers, in memory, for a simulation: what `tally_share` does, without files."""
    rolls = {side: list_ballots(_settled(count_shares(election, source, side, keys[side]))) for side in SIDES}
    agreed = rolls["a"].every & rolls["b"].every
    numbers: Ballots = with_numbers(agreed)
    counters = [count_shares(election, source, side, keys[side], agreed=numbers, without=without) for side in SIDES]
    check_opening(election, numbers, [], over_budget=False)
    one, two = (make_partial(election, _settled(counter), agreed, 1) for counter in counters)
    return one, two


def _settled(counter: ShareCounter) -> ShareCounter:
    counter.settle()
    return counter
