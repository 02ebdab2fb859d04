"""Privacy audit: attack an election's cast and tally with canaries, and compare the result with the claim.

The guarantee holds for any data and any learner, so the audit uses the worst case. Each canary, a row or a party, is in
one of two states that a coin chooses. From what real casts and tallies release with the election's own noise the
auditor guesses the coins. `run` puts the audit together, `scenes` (`placement`, `direct`) places the canaries,
`signals` (`argmax`, `sums`) knows how well the claim allows them to be distinguished, `curve` is the test, and `power`
says what it would have noticed, `words` the result in sentences. Only `cli` and `report` import this package's results.
"""

from .run import Attack, Audit, audit
from .words import describe_result

__all__ = ["Attack", "Audit", "audit", "describe_result"]
