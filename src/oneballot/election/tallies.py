"""Two tallies: `[tallies]` in an election's file. Ballots are split between two servers, and neither can read one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from ..ballot.keys import public_key, server_public_key
from ..errors import ElectionError, KeyFileError
from ..settings import Section, settings

if TYPE_CHECKING:
    from ..interfaces import Method
    from .election import Election

Side = Literal["a", "b"]
SIDES: tuple[Side, Side] = ("a", "b")
UNIT_OF_LEVEL = {"L1": "party", "L2": "row"}


@settings
class Tallies(Section):
    """a, b: the public keys of the two servers, as `oneballot keys new NAME --for-server` prints them.

    a_signs, b_signs: the public keys that verify what each server signs, its partials and lists of ballots; those of
    their logs (`oneballot keys show log.key`). Without them nothing shows who has written a partial.
    unit: whom the noise protects: a "row" at L2, a "party" at L1. The level decides it; this states it again.
    min_difference: an opening is refused if fewer parties are in exactly one of it and an earlier opening.
    openings: how many openings of the total the privacy budget covers.
    parties: the most parties whose sums must fit; it decides how many bytes a number takes in a ballot.
    """

    called: ClassVar[str] = "tallies"

    a: str
    b: str
    unit: Literal["row", "party"] | None = None
    min_difference: Annotated[int, Field(ge=1, le=10**6)] = 3
    openings: Annotated[int, Field(ge=1, le=1000)] = 1
    parties: Annotated[int, Field(ge=2, le=10**6)] = 1000
    a_signs: str | None = None
    b_signs: str | None = None

    def signer_of(self, side: Side) -> str | None:
        return self.a_signs if side == "a" else self.b_signs

    def key_of(self, side: Side) -> str:
        return self.a if side == "a" else self.b

    def describe(self) -> dict[str, Any]:
        """The settings as plain values, for the election's digest."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def as_tallies(value: Any) -> Tallies | None:
    """Settings from settings, or from a mapping like `[tallies]` in a file."""
    return Tallies(**value) if isinstance(value, Mapping) else value


def check_tallies(election: Election) -> None:
    """Raise ElectionError for settings of two tallies that cannot work in this election."""
    tallies = election.tallies
    if tallies is None:
        return
    for side in SIDES:
        try:
            server_public_key(tallies.key_of(side))
        except KeyFileError as error:
            raise ElectionError(f"[tallies] {side}: {str(error).removeprefix('server_key is ')}") from None
        if (signer := tallies.signer_of(side)) is not None:
            try:
                public_key(signer, f"[tallies] {side}_signs")
            except KeyFileError:
                raise ElectionError(
                    f"[tallies] {side}_signs: {signer!r}; expected the public key of the server's log, ed25519:…, as "
                    "`oneballot keys show log.key` prints it"
                ) from None
    if tallies.a == tallies.b:
        raise ElectionError("[tallies] a and b are the same key: the two servers need keys of their own")
    if election.server_key is not None:
        raise ElectionError("with [tallies] every share is encrypted to its server: remove server_key")
    if tallies.a_signs is not None and tallies.a_signs == tallies.b_signs:
        raise ElectionError("[tallies] a_signs and b_signs are the same key: the two servers need keys of their own")
    expected = UNIT_OF_LEVEL.get(election.level)
    if tallies.unit is not None and tallies.unit != expected:
        meant = f'the unit of level {election.level} is "{expected}"' if expected else "level L0 protects no unit"
        raise ElectionError(
            f'[tallies] unit = "{tallies.unit}", but {meant}; set level = "L2" for rows, "L1" for parties'
        )
    if election.level == "L1" and election.privacy.adjacency == "add-remove":
        raise ElectionError(
            'with [tallies] adjacency = "add-remove" is not available at L1: it promises to hide whether a party takes '
            'part, but both servers see who casts a ballot. Use adjacency = "replace", which hides what it casts'
        )
    if election.privacy.tallies > 1:
        raise ElectionError("with [tallies] set openings there instead of tallies under [privacy]")
    if election.calibrate:
        raise ElectionError("calibrate = true is not available with [tallies]; remove one of them")
    if len(election.roster) > tallies.parties:
        raise ElectionError(
            f"the roster lists {len(election.roster):,} parties, but sums are planned for {tallies.parties:,}: raise "
            "parties under [tallies]"
        )


def least_ballots(election: Election) -> int:
    """With how few ballots a total may be opened: the first opening differs from none by so many."""
    return max(election.quorum, 1 if election.tallies is None else election.tallies.min_difference)


def shared_method(method: Method, level: str) -> Method:
    """The method with its settings for two tallies. Raises ElectionError unless its counts are sums alone."""
    chosen = method.for_shares(level)
    if not chosen.sums_alone:
        raise ElectionError(
            f"method {method.name} cannot be used with two tallies: it does not declare that its counts are sums "
            "alone, and two servers learn nothing else. Use another method, or one tally. Its author can declare "
            "`sums_alone = True` if `Count.by_party` is always empty (docs/extending.md#two-tallies)"
        )
    return chosen


def check_two_tallies_can_start(election: Election) -> None:
    """Raise ElectionError, before anyone casts or tallies, unless a roster keeps strangers from adding ballots."""
    if election.tallies is not None and not election.roster and election.variant_of is None:
        raise ElectionError(
            "two tallies need a roster: without one, anyone could add ballots whose numbers they know and subtract "
            "them from the total. Add the parties (oneballot keys add)"
        )
