"""A book of draws: of a server's tallies at L1, of a party's casts at L2. Each draws new noise, and costs add up.

The book stands beside the election, so that a draw into another folder is not forgotten. It is written before the noise
is drawn: what was killed has been charged.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

from ..errors import PrivacyError
from ..runtime.files import lock_folder, write_atomic

TOO_MANY = {
    "tally": "every tally at L1 draws new noise on the same votes, and costs add. Keep the outcome that there is, or "
    "tally with --over-budget: the outcome then tells the larger epsilon. Next time, plan for more with "
    "tallies = {number} under [privacy].",
    "cast": "every cast at L2 draws new noise on the same rows, and costs add. Deliver a ballot that you have kept.",
}


class Charges:
    """Kept in a file, or, without a path, only in memory."""

    def __init__(
        self, election: str, path: Path | None = None, *, earlier: int = 0, what: Literal["tally", "cast"] = "tally"
    ) -> None:
        self.election, self.path, self.what, self._earlier = election, path, what, earlier

    @property
    def draws(self) -> int:
        """How many there were."""
        return max(self._earlier, self._read().get(self.election, 0))

    def charge(self, most: int | None, *, after: int | None = None) -> int:
        """Write down one more; returns which one it is. Raises PrivacyError if there may not be so many, or if there
        were others since somebody looked, and saw so many as are given with `after`.
        """
        if self.path is None:
            return self._charge(most, after)
        try:
            with lock_folder(self.path.parent):
                return self._charge(most, after)
        except OSError as error:
            raise PrivacyError(
                f"{self.path} cannot be written ({error.strerror}), and a {self.what} that is not written down must "
                "not be made; put the election into a folder that can be written to"
            ) from None

    def _charge(self, most: int | None, after: int | None) -> int:
        number = self.draws + 1
        if after is not None and number != after + 1:
            raise PrivacyError(
                f"{self.path} says that another {self.what} of this election has drawn noise since this one began. "
                f"Nothing was drawn here, since costs would add: go on with what that {self.what} has made"
            )
        if most is not None and number > most:
            where = f" ({self.path})" if self.path else ""
            why = TOO_MANY[self.what].format(number=number)
            raise PrivacyError(f"this would be {self.what} number {number}, and {most} are allowed{where}: {why}")
        self._earlier = number
        if self.path is not None:
            kept = {"what": f"how often noise was drawn, each a {self.what}, by election digest; do not delete"}
            draws = self._read() | {self.election: number}
            write_atomic(self.path, json.dumps({**kept, "draws": draws}, indent=1).encode(), 0o600)
        return number

    def _read(self) -> dict[str, int]:
        if self.path is None or not self.path.exists():
            return {}
        try:
            kept = json.loads(self.path.read_bytes())["draws"]
            if any(type(count) is not int or count < 1 for count in kept.values()):
                raise ValueError("a number of draws that is none")
            return dict(kept)
        except (ValueError, KeyError, TypeError, AttributeError, OSError, RecursionError) as error:
            raise PrivacyError(
                f"{self.path} cannot be read ({error!r}), so what was spent is not known; restore it from a backup"
            ) from None
