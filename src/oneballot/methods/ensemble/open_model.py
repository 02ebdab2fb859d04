"""The open ensemble: members weighted, row by row, by how likely a row is one of theirs.

    r_k(x)   = p_k(mine | x) / max(p_k(background | x), floor), at least 0.01
    w_k(x)   = n_k · r_k(x) / s_k, the mean over the party's claim models
    q_k(c|x) ∝ p_k(c | x)^a
    p(c | x) ∝ Σ_k min(w_k(x), cap(x)) · q_k(c | x)

n_k is bounded and s_k computed by the tally, so that no party claims more than its share. The floor bounds a claim, and
`influence.cap_weights` a party's share of a row. Without claim models w_k(x) = n_k. With a > 1 a member that is certain
of a wrong class gains less over several others. A member whose answer for a row is not a probability abstains there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import OneBallotError
from ...influence import LOOSE_SHARE, MOST_SHARE, cap_weights, most_rows, most_share
from ...interfaces import AskModel, Context, HasReplaceableMembers
from ...types import Array, Blob, Contents
from .average import hash_name, pack_names
from .members import Members, in_blocks, warn_of_unanswered, write_members

LEAST_RATIO = 0.01
"""A row that no party claims is decided by all of them."""
CAPPED = {1.0: MOST_SHARE, LOOSE_SHARE: LOOSE_SHARE}
"""The cap by the third number of a file's array `power`; without a cap there are two."""
MINE = 1
"""The class of a party's own rows in a claim model; the background is class 0."""


class OpenEnsemble(HasReplaceableMembers):
    """rows `(members,)`: n_k. scales `(claims,)`: s_k of each claim model. names: hashes of the parties' names.

    shape: the shape of a row. claims: none, or one of every member, or also a second of every member.
    cap: the largest share of a row that a member may have, or more if they are few (`influence.most_share`); 0 for any.
    parties: names for warnings, which are not saved.
    """

    def __init__(
        self,
        models: Sequence[Blob],
        claims: Sequence[Blob],
        rows: Array,
        scales: Array,
        names: Sequence[str],
        classes: int,
        shape: tuple[int, ...],
        *,
        power: float,
        floor: float,
        cap: float = 0.0,
        ask: AskModel | None = None,
        parties: Sequence[str] = (),
    ) -> None:
        self.members, self.claims = Members(models, classes, ask), Members(claims, 2, ask)
        self._name(parties)
        self.rows, self.scales, self.names = np.asarray(rows, dtype=np.float64), scales, list(names)
        self.classes, self.shape, self.power, self.floor, self.cap = classes, shape, power, floor, cap

    sandboxed = True

    def use_sandbox(self, ask: AskModel) -> None:
        self.members.ask = self.claims.ask = ask

    def predict_proba(self, X: Array) -> Array:
        return np.concatenate([np.empty((0, self.classes)), *map(self._combine, in_blocks(X))])

    def scores(self, X: Array) -> Array:
        return np.asarray(np.log(np.clip(self.predict_proba(X), 1e-12, 1)))

    def member_weights(self, X: Array) -> Array:
        """How much each member counts for each row, `(rows, members)`; 0 for a member whose claims fail."""
        return self.capped(self.claimed_weights(X))[0]

    def claimed_weights(self, X: Array) -> Array:
        """The same before the cap."""
        weights = (self._weigh(claim_ratios(self.claims, block, self.floor)) for block in in_blocks(X))
        return np.concatenate([np.empty((0, len(self.members))), *weights])

    def capped(self, weights: Array) -> tuple[Array, Array]:
        """Weights `(rows, members)` of which no member has more than its share, and the rows where that is impossible:
        where one party alone claims a row."""
        if not self.cap:
            return weights, np.zeros(len(weights), dtype=bool)
        return cap_weights(weights, float(self.rows.sum()), most_share(weights.shape[1], self.cap))

    def member_predictions(self, X: Array) -> Iterator[tuple[int, Array]]:
        """Each member's index and probabilities `(rows, classes)`, all 0 in a row where it abstains. A member that
        fails is left out with a warning."""
        return self.members.predictions(X)

    def opinions(self, X: Array) -> Array:
        """The members' sharpened probabilities q, `(members, rows, classes)`; all 0 where a member abstains."""
        opinions = np.zeros((len(self.members), len(X), self.classes))
        for i, probabilities in self.member_predictions(X):
            opinions[i] = probabilities**self.power
            opinions[i] /= np.maximum(opinions[i].sum(axis=1, keepdims=True), 1e-300)
        return opinions

    def _weigh(self, ratios: Array) -> Array:
        """The weights `(rows, members)` that follow from the ratios r `(claims, rows)`."""
        if not len(self.claims):
            return np.tile(self.rows, (ratios.shape[1], 1))
        claimed = (ratios / self.scales[:, None]).reshape(-1, len(self.members), ratios.shape[1]).mean(axis=0)
        return np.asarray((self.rows[:, None] * np.nan_to_num(claimed)).T)

    def _combine(self, X: Array) -> Array:
        opinions = self.opinions(X)
        weights, _ = self.capped(self.claimed_weights(X) * opinions.any(axis=2).T)
        total = np.zeros((len(X), self.classes))
        for weight, opinion in zip(weights.T, opinions, strict=True):
            total += weight[:, None] * opinion
        if len(X) and not total.any():
            raise OneBallotError("no member of the ensemble made a prediction; the warnings say why")
        if unanswered := int((~total.any(axis=1)).sum()):
            warn_of_unanswered(unanswered)
            total[~total.any(axis=1)] = 1.0
        return np.asarray(total / total.sum(axis=1, keepdims=True))

    def name_members(self, parties: Iterable[str]) -> None:
        known = {hash_name(party): party for party in parties}
        self._name([known.get(name, f"member {i}") for i, name in enumerate(self.names)])

    def _name(self, parties: Sequence[str]) -> None:
        self.members.names = tuple(parties)
        several = len(self.claims) // max(1, len(self.members))
        self.claims.names = tuple(f"{party} (claims)" for party in parties) * several

    def find_member(self, party: str | None, contents: Contents | None) -> int | None:
        """The member of a party, by the hash of its name or by its ballot's model."""
        name = None if party is None else hash_name(party)
        if name in self.names:
            return self.names.index(name)
        return None if contents is None else self.members.find(contents.get("model"))

    def rows_of(self, member: int) -> int | None:
        """The rows that the party declares; None where the tally has bounded them."""
        rows = float(self.rows[member])
        return int(rows) if rows.is_integer() and rows < most_rows(self.rows) else None

    def with_member(self, member: int, contents: Contents, ctx: Context, ask: AskModel) -> OpenEnsemble:
        """The same ensemble with this ballot's models in the place of a member, its claims scaled as by a tally."""
        from .claims import NAMES, claim_scales

        own = [blob for name in NAMES if isinstance(blob := contents.get(name), Blob)]
        claims, scales = list(self.claims.blobs), self.scales.copy()
        places = np.arange(member, len(claims), len(self.members))
        scales[places] = claim_scales(Members(own, 2, ask), ctx)
        for place, blob in zip(places, own, strict=True):
            claims[place] = blob
        models = self.members.replaced(member, contents["model"])
        return self._like(models, claims, self.rows, scales, self.names, ask)

    def only(self, members: Array) -> OpenEnsemble:
        """The open ensemble of these members."""
        claims = np.concatenate([members[:0], *(members + i for i in range(0, len(self.claims), len(self.members)))])
        models, names = [self.members.blobs[i] for i in members], [self.names[i] for i in members]
        own = [self.claims.blobs[i] for i in claims]
        parties = [self.members.names[i] for i in members] if self.members.names else ()
        return self._like(models, own, self.rows[members], self.scales[claims], names, self.members.ask, parties)

    def _like(
        self,
        models: Sequence[Blob],
        claims: Sequence[Blob],
        rows: Array,
        scales: Array,
        names: Sequence[str],
        ask: AskModel | None,
        parties: Sequence[str] = (),
    ) -> OpenEnsemble:
        """Other members, combined in the same way."""
        how: dict[str, Any] = {"power": self.power, "floor": self.floor, "cap": self.cap}
        how |= {"ask": ask, "parties": parties}
        return OpenEnsemble(models, claims, rows, scales, names, self.classes, self.shape, **how)

    def dump(self) -> Blob:
        cap = [number for number, share in CAPPED.items() if share == self.cap]
        arrays = {
            "rows": self.rows,
            "scales": np.asarray(self.scales, dtype=np.float64),
            "parties": pack_names(self.names),
            "power": np.array([self.power, self.floor, *cap], dtype=np.float64),
            "shape": np.array(self.shape, dtype=np.int64),
        }
        return write_members([*self.members.blobs, *self.claims.blobs], arrays, "ensemble")


def claim_ratios(claims: Members, X: Array, floor: float) -> Array:
    """r of each claim model for each row, `(claims, rows)`; NaN for a claim model that fails, or abstains there."""
    ratios = np.full((len(claims), len(X)), np.nan)
    for i, probabilities in claims.predictions(X):
        r = np.maximum(probabilities[:, MINE] / np.maximum(probabilities[:, 1 - MINE], floor), LEAST_RATIO)
        ratios[i] = np.where(probabilities.any(axis=1), r, np.nan)
    return ratios
