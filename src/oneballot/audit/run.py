"""Run an audit: attack with the election's noise and without, test the guesses, and say what could not be noticed."""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..election.election import Election
from ..election.tallies import Side
from ..errors import ElectionError, OneBallotWarning, PrivacyError
from ..privacy.audit_bound import canaries_needed, epsilon_lower_bound
from ..privacy.guarantee import VotesGuarantee
from ..runtime.progress import track
from ..types import Array
from .argmax import Argmax
from .curve import Level, bets, choose_levels, guess, log_wealth, payoff
from .power import Simulation
from .scenes import NO_NOISE, attacked_election, left_out, set_scene
from .signals import Signals, Trial
from .stage import Seen
from .sums import Sums

MAX_CANARIES = 2000
"""In the attack without noise."""
SECONDS = 60.0
"""How long the attack with noise may take, unless the caller states the number of runs."""
PLANNED = 40
"""Trials that are simulated to plan the audit."""
FOR_THE_BOUND = 0.1
"""The share of false alarms that the (ε, δ) bound may cause; the test of the curve may cause the rest."""
STEADY = 2
"""Runs without a drift of scores, in effect, before the first."""
SAME_BY_CHANCE = math.log(1e-9)


@dataclass(frozen=True)
class Attack:
    """The guesses of all runs, and the lower bound on epsilon that they prove."""

    canaries: int
    guesses: int
    right: int
    epsilon: float


@dataclass(frozen=True)
class Audit:
    """The result. `findings` are violations that need no statistics."""

    claimed: float
    delta: float
    unit: str
    adjacency: str
    released: str
    confidence: float
    runs: int
    most: float  # the largest epsilon that this number of canaries can refute
    with_noise: Attack
    without_noise: Attack
    levels: tuple[Level, ...]
    wealth: float
    """The evidence against the claimed curve: it reaches 1/α in at most a fraction α of audits of a true claim."""
    refuting_wealth: float
    noticed: float | None
    """Noise weaker than this fraction of the stated scale is noticed in 95 % of audits; None if none is."""
    findings: tuple[str, ...] = ()
    not_attacked: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether the attack does not refute the claim."""
        refuted = self.wealth >= self.refuting_wealth or self._bound_refutes
        return not (refuted or self.findings)

    @property
    def _bound_refutes(self) -> bool:
        noisy, confidence = self.with_noise, 1 - FOR_THE_BOUND * (1 - self.confidence)
        if not noisy.canaries:  # every run drew more noise than declared, which is a finding
            return False
        return epsilon_lower_bound(noisy.canaries, noisy.guesses, noisy.right, self.delta, confidence) > self.claimed

    @property
    def catches(self) -> bool:
        """Whether the attack refutes the claim without noise, which shows that it is strong enough."""
        return self.without_noise.epsilon > self.claimed

    def describe(self) -> dict[str, Any]:
        """The audit as plain values, for JSON and the dossier."""
        plain = {name: value for name, value in vars(self).items() if name not in ("with_noise", "without_noise")}
        attacks = {name: vars(getattr(self, name)) for name in ("with_noise", "without_noise")}
        levels = [{**vars(level), "payoff": level.payoff} for level in self.levels]
        return {**plain, **attacks, "levels": levels, "holds": self.holds, "catches": self.catches}


def audit(
    election: Election,
    *,
    canaries: int | None = None,
    runs: int | None = None,
    confidence: float = 0.95,
    server: Side = "a",
) -> Audit:
    """Attack the election's noise with canaries, in as many runs as it takes to notice half of it, but about a minute.

    server: with two tallies, the one whose noise is attacked, from what the other one sees.
    Each run flips the coins of all its canaries. `canaries` is their number in all runs; by default as many as fit.
    """
    guarantee, privacy = election.guarantee, election.privacy
    if guarantee is None or privacy.rehearsal:
        raise ElectionError("there is nothing to audit: the election claims no epsilon (level L0 or a rehearsal)")
    if not 0 < confidence < 1:
        raise ElectionError(f"confidence must lie between 0 and 1, not {confidence}")
    claimed = guarantee.epsilon()
    most = -math.log((1 - FOR_THE_BOUND) * (1 - confidence))
    with warnings.catch_warnings():  # about the audit's own rows and missing noise, not about this election
        warnings.simplefilter("ignore", OneBallotWarning)
        noisy = _Attacker(election, None, canaries, runs, server)
        findings = noisy.look()
        plan = Simulation([noisy.flip() for _ in range(PLANNED)], noisy.levels)
        number = runs or noisy.plan(plan, most)
        attacked = noisy.attack(number, "attacking with noise")
        wanted = min(MAX_CANARIES, 2 * canaries_needed(claimed, privacy.delta, confidence))
        bare = _Attacker(election, NO_NOISE, canaries or wanted, runs, server)
        bare_runs = runs or -(-wanted // bare.canaries)
        without = bare.attack(bare_runs, "attacking without noise")
    total = number * noisy.canaries
    half = max(1, total // 2)
    return Audit(
        claimed=claimed,
        delta=privacy.delta,
        unit=guarantee.unit,
        adjacency=privacy.adjacency,
        released="votes" if isinstance(guarantee, VotesGuarantee) else guarantee.numbers_name,
        confidence=confidence,
        runs=number,
        most=epsilon_lower_bound(total, half, half, privacy.delta, confidence),
        with_noise=attacked.bound(privacy.delta, confidence),
        without_noise=without.bound(privacy.delta, confidence),
        levels=attacked.levels(),
        wealth=attacked.wealth,
        refuting_wealth=math.exp(most),
        noticed=plan.noticed(number, most),
        findings=(*findings, *attacked.findings),
        not_attacked=(*noisy.signals.left_out(), *left_out(election), *_other_server(election, server)),
    )


def _other_server(election: Election, attacked: Side) -> tuple[str, ...]:
    other = "b" if attacked == "a" else "a"
    return () if election.tallies is None else (f"the noise of server {other} (--share {other})",)


class _Attacker:
    """Flips coins, runs the election, and guesses. `scale` replaces the election's noise."""

    def __init__(
        self, election: Election, scale: float | None, canaries: int | None, runs: int | None, server: Side = "a"
    ) -> None:
        assert election.guarantee is not None, "`audit` has checked it"
        attacked = attacked_election(election, election.guarantee, scale)
        scene, guarantee = set_scene(attacked, server), attacked.guarantee
        self.signals: Signals
        if isinstance(guarantee, VotesGuarantee):
            self.signals = Argmax(scene, guarantee)
        else:
            assert guarantee is not None
            assert guarantee.numbers is not None
            self.signals = Sums(scene, guarantee.numbers, guarantee.numbers_name)
        wanted = self.signals.canaries if canaries is None else -(-canaries // (runs or 1))
        self.canaries = max(1, min(wanted, self.signals.canaries))
        self.rng = np.random.default_rng()
        self.seconds = 0.0
        spread = float(np.mean([self.flip().spread for _ in range(3)]))
        self.levels = choose_levels(spread)

    def flip(self) -> Trial:
        return self.signals.trial(self.rng.integers(2, size=self.signals.canaries))

    def run(self, trial: Trial) -> Seen:
        return self.signals.scene.stage.run(self.signals.scene.parties(self.signals.all_coins(trial.coins)))

    def look(self) -> list[str]:
        """Violations that show without statistics: a unit changes too much, or noise is drawn twice."""
        found, excess = [], self.signals.excess()
        if excess is not None:
            found.append(
                f"a unit changes {excess.what} by {excess.measured:.4g}, but the ledger declares {excess.declared:.4g}"
            )
        if self.signals.scene.misplaced():
            found.append("the subset of a row depends on the other rows, so one row more or less moves others")
        try:
            started = time.monotonic()
            trial = self.flip()
            one, other = self.run(trial), self.run(trial)
            _Guesses(self.levels).add(trial, trial.losses(one), self.canaries)
            trial.show(one)
            self.seconds = (time.monotonic() - started) / 2
        except PrivacyError as error:
            return [*found, str(error)]
        if trial.log_chance_of_repetition() < SAME_BY_CHANCE and np.array_equal(one.released, other.released):
            found.append("two runs of the same election released exactly the same: the noise is not drawn anew")
        if sentence := self.signals.too_many(one):
            found.append(sentence)
        return found

    def plan(self, simulation: Simulation, most: float) -> int:
        """The number of runs: enough for half of the noise, but not longer than SECONDS."""
        return max(2, min(simulation.runs_needed(most), int(SECONDS / max(self.seconds, 1e-4))))

    def attack(self, runs: int, what: str) -> _Guesses:
        guesses = _Guesses(self.levels)
        try:
            for _ in track(what, range(runs), runs):
                trial = self.flip()
                seen = self.run(trial)
                guesses.add(trial, trial.losses(seen), self.canaries)
                trial.show(seen)
        except PrivacyError as error:
            guesses.findings.append(str(error))
        guesses.findings += self.signals.independence.findings()
        return guesses


class _Guesses:
    """The guesses of all runs."""

    def __init__(self, levels: Array) -> None:
        self.epsilons, self.findings = levels, list[str]()
        self._losses, self._coins = list[Array](), list[Array]()
        self._right, self._wrong, self._allowed = list[Array](), list[Array](), list[Array]()
        self._stakes = list[Array]()
        self._drift: Array | None = None

    def add(self, trial: Trial, losses: Array, canaries: int) -> None:
        losses, coins = losses[:canaries], trial.coins[:canaries]
        # Where sums are wrong, all scores may be off alike. What earlier runs show of that is subtracted.
        self._drift = losses if self._drift is None else self._drift + losses
        losses = losses - (self._drift - losses) / (len(self._coins) + STEADY)
        right, wrong = guess(losses, coins, self.epsilons)
        allowed = np.array([trial.allowed(epsilon)[:canaries].mean() for epsilon in self.epsilons])
        self._stakes.append(bets(payoff(right, wrong, self.epsilons), allowed, self.epsilons))
        for kept, value in zip(
            (self._losses, self._coins, self._right, self._wrong, self._allowed),
            (losses, coins, right.sum(axis=1), wrong.sum(axis=1), allowed),
            strict=True,
        ):
            kept.append(value)

    @property
    def wealth(self) -> float:
        return math.exp(min(700.0, float(log_wealth(np.array(self._stakes))[-1]))) if self._stakes else 1.0

    def levels(self) -> tuple[Level, ...]:
        total = sum(map(len, self._coins))
        if not total:
            return ()
        right, wrong = (np.sum(kept, axis=0) for kept in (self._right, self._wrong))
        rows = zip(self.epsilons, right, wrong, np.mean(self._allowed, axis=0), strict=True)
        return tuple(Level(float(e), int(r), int(w), total, float(a)) for e, r, w, a in rows)

    def bound(self, delta: float, confidence: float) -> Attack:
        """The bound of one run also holds for many, because a canary affects its own run alone."""
        if not self._coins:
            return Attack(0, 0, 0, 0.0)
        losses, coins = np.concatenate(self._losses), np.concatenate(self._coins)
        guessed = np.argsort(-np.abs(losses), kind="stable")[: max(1, len(losses) // 2)]
        right = int(((losses[guessed] > 0) == (coins[guessed] == 1)).sum())
        bound = epsilon_lower_bound(len(losses), len(guessed), right, delta, confidence)
        return Attack(len(losses), len(guessed), right, bound)
