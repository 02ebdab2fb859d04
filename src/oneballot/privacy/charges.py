"""Count of the draws of noise in an election: a server's tallies at L1, a party's casts at L2. Their costs add up.

The file stands beside the election, so that a draw into another folder is counted too. It is written before the noise
is drawn: an interrupted draw has been charged.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar, Literal

from ..errors import PrivacyError
from ..runtime.files import lock_folder, write_atomic

TOO_MANY = {
    "tally": "every tally at L1 draws new noise on the same votes, and costs add. Keep the existing outcome, or tally "
    "with --over-budget: the outcome then reports the larger epsilon. Next time, plan for more tallies with "
    "tallies = {number} under [privacy].",
    "cast": "every cast at L2 draws new noise on the same rows, and costs add. Deliver a ballot that you have kept.",
}


class Charges:
    """The draws of one election, kept in a file or, without a path, in memory."""

    drawn_here: ClassVar[bool] = False
    """Whether this process has recorded a draw, so that an interrupted command can say so."""

    def __init__(
        self, election: str, path: Path | None = None, *, earlier: int = 0, what: Literal["tally", "cast"] = "tally"
    ) -> None:
        self.election, self.path, self.what, self._earlier = election, path, what, earlier

    @property
    def draws(self) -> int:
        """The number of draws so far."""
        return max(self._earlier, self._read().get(self.election, 0))

    def charge(self, most: int | None, *, after: int | None = None) -> int:
        """Record one more draw and return its number.

        Raises PrivacyError if that is more than `most`, or if there were other draws since the caller saw `after`.
        """
        if self.path is None:
            return self._charge(most, after)
        try:
            with lock_folder(self.path.parent):
                return self._charge(most, after)
        except OSError as error:
            raise PrivacyError(
                f"{self.path} cannot be written ({error.strerror}), and an unrecorded {self.what} is not allowed; put "
                "the election into a writable folder"
            ) from None

    def _charge(self, most: int | None, after: int | None) -> int:
        number = self.draws + 1
        if after is not None and number != after + 1:
            raise PrivacyError(
                f"{self.path}: another {self.what} of this election has drawn noise since this one began. Costs would "
                f"add, so nothing was drawn here: use the result of that {self.what}"
            )
        if most is not None and number > most:
            where = f" ({self.path})" if self.path else ""
            why = TOO_MANY[self.what].format(number=number)
            raise PrivacyError(f"this would be {self.what} number {number}, but {most} are allowed{where}: {why}")
        self._earlier, Charges.drawn_here = number, True
        if self.path is not None:
            contents = {
                "what": f"how often noise was drawn, each a {self.what}, by election digest; do not delete",
                "draws": self._read() | {self.election: number},
            }
            write_atomic(self.path, json.dumps(contents, indent=1).encode(), 0o600)
        return number

    def _read(self) -> dict[str, int]:
        if self.path is None or not self.path.exists():
            return {}
        try:
            draws = json.loads(self.path.read_bytes())["draws"]
            if any(type(count) is not int or count < 1 for count in draws.values()):
                raise ValueError("the number of draws must be a positive integer")
            return dict(draws)
        except (ValueError, KeyError, TypeError, AttributeError, OSError, RecursionError) as error:
            raise PrivacyError(
                f"{self.path} cannot be read ({error!r}), so the privacy spent is unknown; restore it from a backup"
            ) from None
