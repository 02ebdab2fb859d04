"""A mechanism that another package registers is used everywhere: one file, and no edit of this package."""

from __future__ import annotations

import ast
import itertools
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2
from tests.privacy.enumeration import divergence, neighbours
from typer.testing import CliRunner

import oneballot as ob
from oneballot.cli import app
from oneballot.election.election import Election
from oneballot.election.infer import Choices
from oneballot.election.template import draft
from oneballot.errors import ElectionError
from oneballot.party.context import PartyContext
from oneballot.privacy.accounting import gaussian_delta, pure_delta, total_epsilon
from oneballot.privacy.calibration import best_mechanism
from oneballot.privacy.data_dependent.accounting import data_dependent_epsilon
from oneballot.privacy.ledger import Ledger
from oneballot.privacy.line import Line
from oneballot.privacy.mechanisms import find, names
from oneballot.privacy.mechanisms.gaussian import Gaussian
from oneballot.privacy.sampling import SeededEntropy
from oneballot.privacy.settings import PrivacySettings

NAME = "permute-and-flip"
CODE = (Path(__file__).parent / "permute_and_flip.py").read_text()
LOUD = """
from oneballot.privacy.mechanisms import NoisyNumbers
from oneballot.privacy.mechanisms.gaussian import Gaussian

class LoudNumbers(NoisyNumbers):
    name = "loud"

    def renyi(self, order):
        return super().renyi(order) / 4

    def draw(self, values, entropy):
        return NoisyNumbers(2 * self.sigma, self.squared_shift, True).draw(values, entropy)

class Loud(Gaussian):
    name = "loud"
    numbers = LoudNumbers
"""
"""Numbers with twice the noise that sigma states."""
ORDERS = (1.1, 2.0, 8.0, 40.0)


@pytest.fixture(autouse=True)
def installed(install) -> None:
    entry_points = f"[oneballot.mechanisms]\n{NAME} = acme_ballots:PermuteAndFlip\nloud = acme_ballots:Loud\n"
    install(entry_points, CODE + LOUD)


def by_permutations(votes: tuple[int, ...], scale: float) -> np.ndarray:
    """P(v) as in the paper: in every order of the classes, the first whose flip succeeds wins."""
    p = np.exp((np.array(votes) - max(votes)) / scale)
    wins = np.zeros(len(votes))
    for order in itertools.permutations(range(len(votes))):
        left = 1.0
        for j in order:
            wins[j] += left * p[j]
            left *= 1 - p[j]
    return wins / math.factorial(len(votes))


def test_its_win_probability_matches_the_enumeration_of_all_permutations() -> None:
    for votes in [(3, 1), (5, 5, 2), (9, 0, 4, 4), (7, 7, 7, 7, 7), (12, 3, 5, 1, 0, 8)]:
        expected = by_permutations(votes, 2.5)
        assert find(NAME).win_probability(np.array([votes]) / 2.5)[0] == pytest.approx(expected, rel=1e-12)
        assert expected.sum() == pytest.approx(1)


def test_its_draws_have_the_enumerated_distribution() -> None:
    votes, draws = (9, 0, 4, 4), 40_000
    winners = find(NAME)(2.5, 4, 2).draw(np.tile(votes, (draws, 1)), SeededEntropy(1))
    expected = draws * by_permutations(votes, 2.5)
    surprise = ((np.bincount(winners, minlength=4) - expected) ** 2 / expected).sum()
    assert chi2.sf(surprise, 3) > 1e-6


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(("reach", "one_sided"), [(2, False), (1, True), (4, False)])
def test_no_pair_of_neighbours_costs_more_than_its_curve(classes: int, reach: int, one_sided: bool) -> None:
    query = find(NAME)(2.0, classes, reach, one_sided)
    most = dict.fromkeys(ORDERS, 0.0)
    for votes in itertools.product(range(0, 13, 1 if classes == 2 else 2), repeat=classes):
        p = by_permutations(votes, query.scale)
        for other in neighbours(votes, query):
            q = by_permutations(other, query.scale)
            assert np.abs(np.log(p / q)).max() <= query.pure * (1 + 1e-12)
            for order in ORDERS:
                most[order] = max(most[order], divergence(p, q, order), divergence(q, p, order))
    for order, reached in most.items():
        claimed = query.renyi(order)
        assert reached <= claimed * (1 + 1e-9)
        if classes == 2:  # exact, not only a bound
            assert reached == pytest.approx(claimed, rel=1e-9)


class Exact(Gaussian):
    """Gaussian noise that hides what is known about it, and supplies the same optimum as its own."""

    name = "exact"

    @property
    def squared_mu(self) -> None:
        return None

    def composed_delta(self, times: int, epsilon: float) -> float:
        known = Gaussian(self.scale, self.classes, self.reach).squared_mu
        assert known is not None
        return gaussian_delta(math.sqrt(times * known), epsilon)


@pytest.mark.parametrize("queries", [1, 30, 2000])
def test_equal_releases_compose_by_the_optimum_that_the_mechanism_supplies(queries: int) -> None:
    own, known = Exact(40, 5, 2), Gaussian(40, 5, 2)
    tight = total_epsilon([(own, queries)], 1e-5)
    assert tight == pytest.approx(total_epsilon([(known, queries)], 1e-5), rel=1e-12)
    assert tight < total_epsilon([(own, queries)], 1e-5, "rdp")
    assert total_epsilon([(own, queries)], 1e-5, adaptive=True) == total_epsilon([(own, queries)], 1e-5, "rdp")
    mixed = [(own, queries), (Exact(50, 5, 2), 1)]
    assert total_epsilon(mixed, 1e-5) == total_epsilon(mixed, 1e-5, "rdp"), "the optimum is of equal releases only"


def test_its_queries_compose_exactly_as_pure_ones() -> None:
    epsilon = total_epsilon([(find(NAME)(25.0, 10, 2), 40)], 1e-5)
    assert pure_delta(2 / 25, 40, epsilon) == pytest.approx(1e-5, rel=1e-6)
    assert epsilon < total_epsilon([(find(NAME)(25.0, 10, 2), 40)], 1e-5, "rdp")


@pytest.mark.parametrize(("level", "adjacency"), [("L1", "replace"), ("L1", "add-remove"), ("L2", "replace")])
@pytest.mark.parametrize("classes", [2, 3])
def test_casts_and_tallies_reveal_no_more_than_the_ledger_claims(audit, level, adjacency, classes: int) -> None:
    privacy = PrivacySettings(
        level, None, 1e-3, mechanism=NAME, scale=4.0, adjacency=adjacency, stable_ids=True if level == "L2" else None
    )
    audit.forget()
    others = 6 + (classes == 3)
    found = audit.check(audit.arrange(privacy, classes=classes, others=others, elsewhere=int(classes == 3)))
    assert found.exact <= found.claimed
    assert found.exact > (0.7 if classes == 2 else 0.2) * found.claimed
    rows = np.zeros((3000, 1), dtype=np.float32)
    audit.check_law(ob.Election(range(3), rows, ob.FedKT(), privacy=privacy))


def test_ballots_and_outcome_are_charged_for_it(digits) -> None:
    privacy = ob.L2(8.0, mechanism=NAME)
    election = ob.Election(range(10), digits.public[:40], ob.FedKT(), ob.Sklearn("GaussianNB"), privacy=privacy)
    ledger = ob.simulate(election, digits.X[:300], digits.y[:300], parties=2, split="homogeneous").outcome.ledger
    (line,) = ledger.lines
    assert (line.mechanism, line.times, line.classes) == (NAME, 40, 10)
    assert ledger.epsilon == pytest.approx(8.0, rel=1e-3)
    assert f"40 × vote among 10 classes, {NAME} noise, scale {line.scale:.6g}" in ledger.describe()
    assert Ledger.model_validate_json(ledger.model_dump_json()).epsilon_at(1e-5) == pytest.approx(ledger.epsilon)
    assert "their label wins" in election.guarantee.forecast(2)[0]
    with pytest.raises(ElectionError, match=f"no data-dependent bound is known for {NAME} noise"):
        data_dependent_epsilon(find(NAME)(3.0, 2, 2), np.array([[3, 1]]), 1e-5)


def test_an_election_file_names_it(tmp_path) -> None:
    (tmp_path / "public.csv").write_text("age,ward,ill\n1,north,no\n2,south,yes\n3,north,no\n")
    path = tmp_path / "election.toml"
    text = draft(tmp_path / "public.csv", "ill", beside=path, choices=Choices(strict=True)).text
    text = re.sub(r"(?m)^(influence|second_choice) = .*\n", "", text)  # what is drafted is for L0 alone
    chosen = text.replace('level = "L0"', f'level = "L2"\nscale = 3.0\nmechanism = "{NAME}"')
    path.write_text(chosen, "utf-8")
    assert Election.read(path).guarantee.query == find(NAME)(3.0, 2, 4)
    assert NAME in CliRunner().invoke(app, ["check", str(path)]).output
    path.write_text(chosen.replace(NAME, "permute-or-flip"), "utf-8")
    with pytest.raises(ElectionError, match=r"unknown mechanism 'permute-or-flip'; .* Did you mean 'permute-and-flip'"):
        Election.read(path)


def test_a_budget_is_calibrated_to_its_noise_and_noise_to_queries() -> None:
    def answer(*words: str) -> dict:
        result = CliRunner().invoke(app, ["epsilon", *words, "--classes", "5", "--json"])
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    noise = answer("--mechanism", NAME, "--epsilon", "2", "--queries", "100", "--compare", "--parties", "200")
    assert noise["epsilon"] == pytest.approx(2, rel=1e-6)
    assert NAME in {row["mechanism"] for row in noise["compared"]}
    assert 0.2 < noise["right_label_wins"] <= 1
    bought = answer("--mechanism", NAME, "--epsilon", "2", "--scale", str(noise["scale"]))
    assert bought["queries"] == 100


def test_numbers_are_released_with_the_noise_of_another_package(digits) -> None:
    quiet, loud = (
        ob.Election(range(10), digits.public, ob.Analytic(), privacy=ob.L2(1.0, mechanism=name))
        for name in ("gaussian", "loud")
    )
    assert loud.guarantee.numbers.sigma == pytest.approx(quiet.guarantee.numbers.sigma / 2, rel=1e-6)
    ctx = PartyContext(loud, "a")
    zeros = np.zeros(4000, np.int64)
    drawn = ctx.release(zeros, cell=loud.guarantee.numbers_name)
    assert drawn.std() == pytest.approx(2 * loud.guarantee.numbers.sigma, rel=0.1)
    (line,) = loud.ballot_ledger.lines
    assert line.mechanism == "loud"
    assert "loud noise" in line.describe()
    assert loud.ballot_ledger.epsilon == pytest.approx(1.0, rel=1e-4)
    assert loud.ballot_ledger.epsilon_at(1e-5) == pytest.approx(1.0, rel=1e-4)


def test_auto_does_not_depend_on_what_is_installed() -> None:
    def releases(mechanism: str, scale: float):
        assert mechanism != NAME
        return [(find(mechanism)(scale, 5, 2), 100)]

    assert best_mechanism(2.0, releases, 5, 1e-5)[0] in ("gumbel", "gaussian")
    assert NAME in names()


def test_settings_of_other_mechanisms_are_refused() -> None:
    for wrong, words in [
        ({"gamma": 0.1}, "gamma is laplace noise"),
        ({"scale": 3.0, "sampler": "opendp"}, 'sampler needs mechanism = "gumbel"'),
        ({"scale": 3.0, "threshold": 3.0}, 'threshold needs mechanism = "confident"'),
    ]:
        with pytest.raises(ElectionError, match=words):
            ob.L2(mechanism=NAME, **wrong)
    with pytest.raises(ElectionError, match="covers Laplace noise only"):
        total_epsilon([(find(NAME)(3.0, 2, 2), 1)], 1e-5, "paper")
    with pytest.raises(ElectionError, match=r"unknown mechanism 'permute'; available: .*Plug-ins must be installed"):
        ob.L2(1.0, mechanism="permute")
    with pytest.raises(ValueError, match="unknown mechanism 'permute'"):
        Line(what="vote", times=1, mechanism="permute", scale=1.0, classes=2, reach=2)


def test_no_module_outside_their_folder_names_a_mechanism() -> None:
    package = Path(ob.__file__).parent
    for file in package.rglob("*.py"):
        if "mechanisms" not in file.parts:
            texts = {
                node.value for node in ast.walk(ast.parse(file.read_text("utf-8"))) if isinstance(node, ast.Constant)
            }
            assert not texts & {*names()}, file
