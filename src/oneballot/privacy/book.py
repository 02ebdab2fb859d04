"""The server's book of its tallies at L1: each draws new noise on the same votes, and costs add up.

The book stands beside the election, so that a tally into another folder is not forgotten. A tally is written down
before its noise is drawn: one that is killed has been charged.
"""

from __future__ import annotations

import json
from pathlib import Path

from ..disk import alone_in, write_whole
from ..errors import PrivacyError


class Book:
    """Kept in a file, or, without a path, only in memory."""

    def __init__(self, election: str, path: Path | None = None, *, earlier: int = 0) -> None:
        self.election, self.path, self._earlier = election, path, earlier

    @property
    def tallies(self) -> int:
        """How many there were."""
        return max(self._earlier, self._read().get(self.election, 0))

    def charge(self, planned: int | None) -> int:
        """Write down one more; returns which one it is. Raises PrivacyError if the budget was for fewer."""
        if self.path is None:
            return self._charge(planned)
        try:
            with alone_in(self.path.parent):
                return self._charge(planned)
        except OSError as error:
            raise PrivacyError(
                f"the book of tallies {self.path} cannot be written ({error.strerror}), and a tally that is not "
                "written down must not be made; tally where the election's folder can be written to"
            ) from None

    def _charge(self, planned: int | None) -> int:
        number = self.tallies + 1
        if planned is not None and number > planned:
            where = f" ({self.path})" if self.path else ""
            raise PrivacyError(
                f"this would be tally number {number}, and the budget of the election is for {planned}{where}: every "
                "tally at L1 draws new noise on the same votes, and costs add. Keep the outcome that there is, or "
                "tally with --over-budget: the outcome then tells the larger epsilon. Next time, plan for more with "
                f"tallies = {number} under [privacy]."
            )
        self._earlier = number
        if self.path is not None:
            kept = {"what": "tallies at L1 by election digest; do not delete"}
            tallies = self._read() | {self.election: number}
            write_whole(self.path, json.dumps({**kept, "tallies": tallies}, indent=1).encode())
        return number

    def _read(self) -> dict[str, int]:
        if self.path is None or not self.path.exists():
            return {}
        try:
            kept = json.loads(self.path.read_bytes())["tallies"]
            return {str(election): int(count) for election, count in kept.items()}
        except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
            raise PrivacyError(
                f"the book of tallies {self.path} cannot be read ({error!r}), so what was spent is not known; "
                "restore it from a backup"
            ) from None
