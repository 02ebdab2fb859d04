"""What a server has opened: its partials, kept beside the election. They are the charge for the noise.

A partial is kept before anyone sees it, in one atomic step. A server that is killed before has drawn noise that nobody
saw, and one that is killed afterwards writes the same partial again. Noise is never drawn twice for the same ballots.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ...election.election import Election
from ...election.tallies import Side
from ...errors import BallotError, PrivacyError
from ...privacy.charges import Charges
from ...runtime.files import lock_folder, write_atomic
from .partial import Partial
from .roll import Ballots


class Openings:
    """The openings of one election at one server, in a folder."""

    def __init__(self, election: Election, side: Side, beside: Path) -> None:
        self.election, self.side = election, side
        self.folder = beside / f"openings-{side}"

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Take turns with other commands of this server: both would draw noise."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with lock_folder(self.folder):
                yield
        except PermissionError as error:
            raise PrivacyError(
                f"{self.folder} cannot be written ({error.strerror}), and an unrecorded opening is not allowed; put "
                "the election into a writable folder"
            ) from None

    def read(self) -> list[Partial]:
        """The earlier openings, in order."""
        found = []
        for number, path in enumerate(self._paths(), start=1):
            try:
                partial = Partial.read(path)
            except BallotError as error:
                raise PrivacyError(
                    f"{error}. So what was opened before is unknown; restore {path} from a backup"
                ) from None
            if path != self._path(number) or (partial.election, partial.side, partial.opening) != (
                self.election.digest, self.side, number,
            ):  # fmt: skip
                raise PrivacyError(
                    f"{path} is not opening {number} of server {self.side}: an earlier one is missing; restore "
                    f"{self.folder} from a backup"
                )
            found.append(partial)
        return found

    def keep(self, partial: Partial) -> None:
        """Record an opening. From here on it is charged."""
        write_atomic(self._path(partial.opening), partial.dump(), 0o600)
        Charges.drawn_here = True

    def _paths(self) -> list[Path]:
        return sorted(self.folder.glob(f"{self.election.digest[:16]}-*.partial"))

    def _path(self, number: int) -> Path:
        return self.folder / f"{self.election.digest[:16]}-{number:04d}.partial"


def check_opening(election: Election, ballots: Ballots, earlier: list[Partial], *, over_budget: bool) -> None:
    """Raise PrivacyError if these ballots may not be opened after the earlier openings, of other ballots."""
    assert election.tallies is not None
    check_difference(ballots, [each.ballots for each in earlier], election.tallies.min_difference)
    number, budget = len(earlier) + 1, election.tallies.openings
    if election.guarantee is not None and number > budget and not over_budget:
        raise PrivacyError(
            f"this would be opening number {number}, but the privacy budget covers {budget}: every opening draws new "
            "noise, and costs add. Keep the existing outcome, or give --over-budget: the outcome then reports the "
            f"larger epsilon. Next time, plan for more with openings = {number} under [tallies]."
        )


def check_difference(ballots: Ballots, earlier: Sequence[Ballots], least: int) -> None:
    """Raise PrivacyError unless at least `least` parties are in exactly one of these ballots and any earlier ones.

    The opening of no ballots at all counts as an earlier one: everybody knows its total. A party in both is no
    difference, even with another ballot: its numbers may be the same, and then they cancel. If `least` is 1, single
    ballots may be opened, and there is nothing to compare.
    """
    for other in [frozenset[tuple[str, str]](), *earlier] if least > 1 else []:
        now, before = ({party for party, _ in each} for each in (ballots, other))
        if len(changed := now ^ before) >= least:
            continue
        again = ", ".join(sorted({party for party, _ in ballots ^ other} - changed))
        recast = f" The new ballot of {again} may hold the same numbers, so it does not count." if again else ""
        names = f" ({', '.join(sorted(changed))})" if changed else ""
        raise PrivacyError(
            f"these ballots differ from {'an earlier opening' if other else 'no ballots at all'} by {len(changed)}"
            f"{names}, and the difference of the totals would reveal them: at least {least} must differ "
            f"(min_difference).{recast} Wait for more ballots."
        )
