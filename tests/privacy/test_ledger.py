"""Privacy settings, guarantees, ledgers and charges."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import numpy as np
import pytest

import oneballot as ob
from oneballot.errors import ElectionError, PrivacyError
from oneballot.methods.fedkt.settings import CLASS_COUNTS
from oneballot.privacy.accounting import epsilon, total_epsilon
from oneballot.privacy.calibration import calibrate
from oneballot.privacy.charges import Charges
from oneballot.privacy.ledger import Ledger, format_epsilon
from oneballot.privacy.line import Line
from oneballot.privacy.mechanisms import NoisyNumbers, find
from oneballot.privacy.settings import L1, L2, PrivacySettings
from oneballot.types import Numbers, Spending, Votes

FORTY = Spending(Votes(queries=40, classes=2, partitions=1, subsets=25))


class TestSettings:
    @pytest.mark.parametrize(
        ("settings", "words"),
        [
            ({"delta": 0.0}, "delta must lie between 0 and 1, not 0"),
            ({"delta": 1.0}, "delta must lie between 0 and 1, not 1"),
            ({"gamma": 0.1, "sigma": 3.0}, "give one noise scale, not gamma and sigma"),
            ({"gamma": 0.1, "mechanism": "gumbel"}, "gamma is laplace noise"),
            ({"noise_seed": 1}, "give both or neither"),
            ({"rehearsal": True}, "give both or neither"),
            ({"tallies": 2}, "tallies cannot be given at level L2"),
            ({"threshold": 3.0}, "threshold needs mechanism = .confident."),
            ({"mechanism": "confident"}, "needs threshold"),
            ({"sampler": "opendp"}, "sampler needs mechanism = .gumbel."),
        ],
    )
    def test_invalid_settings_are_refused(self, settings, words: str) -> None:
        with pytest.raises(ElectionError, match=words):
            L2(2.0, **settings)

    def test_l0_takes_no_settings_and_the_other_levels_need_some(self) -> None:
        with pytest.raises(ElectionError, match=r'level = "L0" adds no noise, so epsilon cannot be given'):
            PrivacySettings(epsilon=1.0)
        with pytest.raises(ElectionError, match=r"needs a privacy budget .* or a noise scale"):
            L1()

    def test_the_noise_scale_may_be_given_by_its_usual_name(self) -> None:
        assert L2(gamma=0.04).stated_noise() == ("laplace", 25.0)
        assert L2(sigma=40).stated_noise() == ("gaussian", 40.0)
        assert L2(scale=12).stated_noise() == ("gumbel", 12.0)
        assert L2(scale=12, mechanism="laplace").stated_noise() == ("laplace", 12.0)
        assert L2(2.0).stated_noise() is None


class TestGuarantees:
    def test_epsilon_is_computed_from_the_noise_scale(self) -> None:
        assert calibrate(L2(gamma=0.04, accountant="rdp"), FORTY, True).epsilon() == pytest.approx(0.9929, abs=6e-5)
        assert calibrate(L2(gamma=0.04, accountant="rdp"), FORTY, False).epsilon() == pytest.approx(2.1135, abs=6e-5)
        assert calibrate(L2(gamma=0.04, accountant="paper"), FORTY, True).epsilon() == pytest.approx(2.5911, abs=6e-5)

    def test_partitions_compose_at_l2_and_increase_the_reach_at_l1(self) -> None:
        twice = Spending(Votes(queries=40, classes=2, partitions=2, subsets=5))
        assert calibrate(L2(gamma=0.04, accountant="rdp"), twice, True).epsilon() == pytest.approx(1.4718, abs=6e-5)
        assert calibrate(L1(gamma=0.04, accountant="rdp"), twice, True).epsilon() == pytest.approx(2.1135, abs=6e-5)

    @pytest.mark.parametrize("mechanism", ["auto", "gumbel", "gaussian", "laplace"])
    @pytest.mark.parametrize("level", [L1, L2])
    def test_noise_is_calibrated_to_the_budget(self, level, mechanism: str) -> None:
        guarantee = calibrate(level(1.5, mechanism=mechanism), FORTY, True)
        assert 1.49 < guarantee.epsilon() <= 1.5

    def test_a_noise_scale_that_cannot_be_drawn_is_refused(self) -> None:
        with pytest.raises(ElectionError, match="the noise scale must lie between"):
            calibrate(L1(1e-4, mechanism="gaussian"), Spending(Votes(10**5, 3, 1, 1)), True)

    @pytest.mark.parametrize("settings", [{"test_sigma": 20000.0}, {"threshold": 1e7}])
    def test_a_test_that_cannot_be_drawn_is_refused(self, settings) -> None:
        privacy = {"mechanism": "confident", "threshold": 5.0, "answers": 10, "sigma": 3.0, **settings}
        with pytest.raises(ElectionError, match="must lie"):
            calibrate(L1(**privacy), FORTY, True)

    def test_the_papers_accountant_uses_laplace_noise(self) -> None:
        guarantee = calibrate(L2(2.591, accountant="paper"), FORTY, True)
        assert guarantee.query.name == "laplace"
        assert guarantee.query.scale == pytest.approx(25, rel=1e-3)

    def test_budget_and_noise_scale_determine_the_queries(self) -> None:
        guarantee = calibrate(L2(1.0, scale=25.0), Spending(Votes(4000, 2, 1, 25)), True)
        assert guarantee.epsilon() <= 1.0 < epsilon(guarantee.query, guarantee.queries + 1, 1e-5)
        assert calibrate(L2(1.0, scale=25.0), Spending(Votes(10, 2, 1, 25)), True).queries == 10

    def test_the_budget_covers_all_tallies_and_silos(self) -> None:
        once, thrice = calibrate(L1(2.0), FORTY, True), calibrate(L1(2.0, tallies=3), FORTY, True)
        assert thrice.query.scale > 1.5 * once.query.scale
        assert thrice.epsilon() == pytest.approx(2.0, rel=1e-4)
        assert thrice.ledger().epsilon < 2.0
        people = calibrate(L2(2.0, max_silos_per_person=3), FORTY, True)
        assert people.query == calibrate(L2(2.0), Spending(Votes(120, 2, 1, 25)), True).query

    def test_class_counts_are_charged_within_the_budget(self) -> None:
        counted = Spending(Votes(queries=40, classes=2, partitions=1, subsets=25), CLASS_COUNTS)
        guarantee = calibrate(L2(2.0), counted, True)
        assert guarantee.numbers is not None
        assert guarantee.epsilon() <= 2.0
        assert guarantee.query.scale > calibrate(L2(2.0), FORTY, True).query.scale
        assert [line.what for line in guarantee.ledger().lines] == ["vote", "class counts"]
        stated = calibrate(L2(gamma=0.04, counts_sigma=30), counted, True)
        assert stated.numbers == NoisyNumbers(30, 2.0, whole=True)
        with pytest.raises(ElectionError, match="give counts_sigma"):
            calibrate(L2(gamma=0.04), counted, True)

    def test_confident_gnmax_charges_every_test_and_all_possible_answers(self) -> None:
        privacy = L2(3.0, mechanism="confident", threshold=15, answers=10)
        guarantee = calibrate(privacy, FORTY, True)
        assert [(line.what, line.times) for line in guarantee.ledger().lines] == [("test", 40), ("vote", 10)]
        assert guarantee.test is not None
        assert (guarantee.test.sigma, guarantee.test.squared_shift) == (
            pytest.approx(2 * guarantee.query.scale, rel=1e-5),
            1,
        )
        assert 2.99 < guarantee.epsilon() <= 3.0

    def test_the_forecast_reports_too_few_parties_and_how_many_are_needed(self) -> None:
        gumbel = {"mechanism": "gumbel", "accountant": "rdp"}
        for queries, wins, best in ((100, 0.24, 0.28), (1000, 0.13, 0.14)):
            asked = Spending(Votes(queries, 10, 1, 1))
            assert round(calibrate(L1(5.0, **gumbel), asked, True).wins(10), 2) == wins
            assert round(calibrate(L1(5.0), asked, True).wins(10), 2) == best
        guarantee = calibrate(L1(5.0), Spending(Votes(100, 10, 1, 1)), True)
        (sentence,) = guarantee.forecast(10)
        assert "wins 28% of the time" in sentence
        assert "This will not work" in sentence
        needed = guarantee.voters_needed()
        assert f"it takes {needed:,} parties" in sentence
        assert guarantee.wins(needed) >= 0.9 > guarantee.wins(needed - 1)
        assert guarantee.is_hopeless(10)
        assert not guarantee.is_hopeless(needed)
        assert "will not" not in guarantee.forecast(needed)[0]

    def test_a_rehearsal_has_no_epsilon(self) -> None:
        guarantee = calibrate(L2(2.0, rehearsal=True, noise_seed=1), FORTY, True)
        assert guarantee.ledger().epsilon is None
        assert not guarantee.ledger().publishable
        assert "NOT PRIVATE" in guarantee.ledger().describe()[0]
        with pytest.raises(ElectionError, match="a rehearsal has no epsilon"):
            guarantee.epsilon()
        with pytest.raises(ElectionError, match=r"no epsilon to report: .*NOT PRIVATE"):
            guarantee.ledger().epsilon_at(1e-6)


@pytest.mark.parametrize("squared_shift", [1.0, 2.0])
@pytest.mark.parametrize("sigma", [1.0, 1.5, 2.0, 3.0, 10.0])
def test_class_counts_cost_at_most_the_claim(sigma: float, squared_shift: float) -> None:
    """Exact: discrete Gaussians on the integers, one or two of them shifted by 1."""
    claimed = total_epsilon([(NoisyNumbers(sigma, squared_shift, whole=True), 1)], 1e-5)
    y = np.arange(-60 * int(np.ceil(sigma)), 60 * int(np.ceil(sigma)) + 1)
    law = np.exp(-(y**2) / (2 * sigma**2))
    here, there = law / law.sum(), np.roll(law, 1) / law.sum()
    if squared_shift == 2:
        here, there = np.outer(here, there).ravel(), np.outer(there, here).ravel()
    delta = np.maximum(here - np.exp(claimed) * there, 0).sum()
    assert delta <= 1e-5


class TestLedgers:
    def ledger(self) -> Ledger:
        return calibrate(L2(gamma=0.04), FORTY, True).ledger()

    def test_the_description_includes_unit_adjacency_epsilon_delta_and_releases(self) -> None:
        text = "\n".join(self.ledger().describe())
        for words in (
            "epsilon 0.93",
            "delta 1e-05",
            "for each patient (all rows with the same ID)",
            "adjacency replace",
            "40 × vote among 2 classes",
            "laplace noise, scale 25",
            "may be published",
            "the same ID with other content; a person swapped for another moves two votes",
            "the rows of an ID, and their number, may all differ",
        ):
            assert words in text
        by_content = "\n".join(calibrate(L2(gamma=0.04), FORTY, False).ledger().describe())
        assert "for each row" in by_content
        assert "several rows of one person" in by_content

    def test_noise_on_numbers_is_described_by_what_a_unit_can_change_and_recorded_in_their_own_units(self) -> None:
        """Statistics are integers of ten digits: their scale tells a reader nothing."""
        sums = Numbers("statistics", add_remove=2.0**61, replaced=4.5 * 2.0**60, limited=True)
        guarantee = calibrate(L2(1.0), Spending(numbers=sums), True)
        (line,) = guarantee.ledger().lines
        times = line.scale / math.sqrt(line.squared_shift)
        assert line.scale > 2**30
        assert f"1 × statistics, gaussian noise, {times:.4g} times the largest change of one patient" in (
            guarantee.ledger().describe()
        )
        assert f"of {times:.3g} times the largest change that one patient" in guarantee.forecast(None)[0]
        assert not any("e+" in sentence for sentence in guarantee.ledger().describe())
        assert Ledger.model_validate_json(guarantee.ledger().model_dump_json()).lines == (line,)

    def test_a_ledger_survives_json_and_its_epsilon_can_be_recomputed(self) -> None:
        ledger = self.ledger()
        again = Ledger.model_validate_json(ledger.model_dump_json())
        assert again == ledger
        assert again.epsilon_at(1e-5) == ledger.epsilon
        assert again.epsilon_at(1e-6) > ledger.epsilon

    def test_drawing_twice_costs_as_much_as_twice_the_queries(self) -> None:
        twice = self.ledger().times(2)
        assert twice.drawn == 2
        assert twice.epsilon == pytest.approx(epsilon(find("laplace")(25, 2, 2), 80, 1e-5, "rdp"))

    def test_an_untrusted_ledger_is_described_without_computation(self) -> None:
        (line,) = self.ledger().lines
        monster = self.ledger().model_copy(update={"lines": (line.model_copy(update={"times": 10**9}),) * 20})
        assert "for all rows of a party" not in "\n".join(monster.describe())
        assert "for all rows of a party" in "\n".join(self.ledger().describe(whole=True))
        assert not monster.model_copy(update={"drawn": 10**9}).agrees_with(self.ledger())

    @pytest.mark.parametrize(
        "change",
        [
            {"adjacency": "add-remove"},
            {"level": "L1"},
            {"epsilon": 0.5},
            {"delta": 1e-4},
            {"lines": ()},
            {"unit": "party"},
            {"drawn": 2},
            {"publishable": False},
            {"rehearsal": True},
        ],
    )
    def test_a_ledger_with_any_other_field_does_not_agree(self, change) -> None:
        expected = self.ledger()
        assert expected.agrees_with(expected)
        assert expected.times(2).agrees_with(expected)
        assert not expected.model_copy(update=change).agrees_with(expected)

    def test_a_smaller_scale_does_not_agree_and_a_rounded_one_does(self) -> None:
        expected = self.ledger()
        (line,) = expected.lines

        def with_scale(scale: float) -> Ledger:
            return expected.model_copy(update={"lines": (line.model_copy(update={"scale": scale}),)})

        assert with_scale(25 * (1 + 1e-9)).agrees_with(expected)
        assert not with_scale(24.9).agrees_with(expected)

    @pytest.mark.parametrize(
        "fields",
        [
            {"level": "L2", "epsilon": 1.0},
            {"level": "L2", "epsilon": 1.0, "delta": 1e-5},
            {"level": "L2", "lines": [{"what": "vote", "times": 1, "mechanism": "gumbel", "scale": 1.0}]},
            {"level": "L2", "epsilon": -1.0},
            {"level": "L9"},
            {"drawn": 0},
            {"nonsense": 1},
        ],
    )
    def test_an_incomplete_ledger_is_refused(self, fields) -> None:
        with pytest.raises(ValueError, match=r"(?i)ledger"):
            Ledger.model_validate(fields)

    def test_a_printed_epsilon_is_rounded_up(self) -> None:
        assert [format_epsilon(e) for e in (0.93486, 1.9999999, 2.0, 2.00001, 12.3411, 123456.0)] == [
            "0.9349",
            "2",
            "2",
            "2.001",
            "12.35",
            "1.235e+05",
        ]

    def test_an_inconsistent_line_is_refused(self) -> None:
        with pytest.raises(ElectionError, match="neither classes and reach nor squared_shift"):
            _ = Line(what="vote", times=1, mechanism="gumbel", scale=1.0).release


class TestCharges:
    def test_draws_are_counted_by_election(self, tmp_path) -> None:
        path = tmp_path / "election.tallies.json"
        assert Charges("a" * 64, path).charge(None) == 1
        assert Charges("a" * 64, path).charge(None) == 2
        assert Charges("b" * 64, path).charge(1) == 1
        assert json.loads(path.read_text())["draws"] == {"a" * 64: 2, "b" * 64: 1}

    def test_draws_beyond_the_limit_are_refused_and_not_recorded(self, tmp_path) -> None:
        charges = Charges("a" * 64, tmp_path / "charges.json")
        charges.charge(1)
        with pytest.raises(PrivacyError, match=r"tally number 2, but 1 are allowed.*--over-budget"):
            charges.charge(1)
        assert charges.draws == 1

    def test_concurrent_draws_are_all_counted(self, tmp_path) -> None:
        """Four processes make a hundred draws; none is lost."""
        code = (
            "import sys; from pathlib import Path; from oneballot.privacy.charges import Charges\n"
            "for _ in range(25): Charges('a' * 64, Path(sys.argv[1])).charge(None)"
        )
        path = tmp_path / "charges.json"
        running = [subprocess.Popen([sys.executable, "-c", code, str(path)]) for _ in range(4)]
        assert [process.wait() for process in running] == [0] * 4
        assert Charges("a" * 64, path).draws == 100

    def test_charges_that_cannot_be_written_stop_the_draw(self, tmp_path) -> None:
        with pytest.raises(PrivacyError, match=r"cannot be written .*unrecorded tally is not allowed"):
            Charges("a" * 64, tmp_path / "nowhere" / "charges.json").charge(None)

    def test_an_earlier_outcome_counts_if_the_file_is_lost(self, tmp_path) -> None:
        assert Charges("a" * 64, tmp_path / "charges.json", earlier=3).charge(None) == 4

    def test_damaged_charges_stop_the_draw(self, tmp_path) -> None:
        for damaged in ("{", "[]", '{"draws": {"a": -5}}', '{"draws": {"a": 0.9}}', "[" * 10**5):
            (tmp_path / "charges.json").write_text(damaged)
            with pytest.raises(PrivacyError, match=r"cannot be read .*restore it"):
                Charges("a" * 64, tmp_path / "charges.json").charge(None)


def test_privacy_settings_are_in_the_digest(make_election) -> None:
    digests = {
        make_election(privacy=privacy).digest
        for privacy in (
            "L0",
            L1(2.0),
            L2(2.0),
            L2(2.0, delta=1e-6),
            L2(2.0, adjacency="add-remove"),
            L2(2.0, stable_ids=True),
            L2(2.0, rehearsal=True, noise_seed=1),
        )
    }
    assert len(digests) == 7
    assert make_election(privacy="L0").digest == make_election().digest


def test_the_level_determines_the_methods_open_settings(make_election) -> None:
    open_method = ob.FedKT()
    chosen = {
        level: make_election(privacy=privacy, method=open_method).method
        for level, privacy in {"L0": "L0", "L1": L1(2.0), "L2": L2(2.0)}.items()
    }
    assert (chosen["L0"].open_vote, chosen["L0"].subsets, chosen["L0"].students) == ("weighted", 1, False)
    assert (chosen["L1"].open_vote, chosen["L1"].subsets, chosen["L1"].students) == ("off", 1, False)
    assert (chosen["L2"].open_vote, chosen["L2"].subsets, chosen["L2"].students) == ("off", 25, False)
