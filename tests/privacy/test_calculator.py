"""`oneballot epsilon` on the command line: known values, all questions, all refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import oneballot as ob
from oneballot.cli import app
from oneballot.privacy.accounting import total_epsilon
from oneballot.privacy.calibration import calibrate
from oneballot.privacy.mechanisms import NoisyNumbers, find
from oneballot.privacy.releases import UNIT_NAMES
from oneballot.privacy.renyi import epsilon_from_renyi
from oneballot.types import Spending, Votes

DELTA = 1e-5


def stdout(*words: object, status: int = 0) -> str:
    result = CliRunner().invoke(app, ["epsilon", *map(str, words)])
    assert result.exit_code == status, result.output + repr(result.exception)
    return result.stdout


def answer(words: str, status: int = 0) -> dict:
    return json.loads(stdout(*words.split(), "--json", status=status))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--gamma .04 --queries 40 --accountant rdp", 0.9929),
        ("--gamma .04 --queries 40 --accountant rdp --adjacency add-remove", 0.4700),
        ("--gamma .04 --queries 40 --accountant rdp --level L2 --no-ids", 2.1135),
        ("--gamma .04 --queries 40 --accountant rdp --partitions 2", 2.1135),
        ("--gamma .04 --queries 81 --accountant rdp", 1.4822),
        ("--gamma .04 --queries 81 --accountant rdp --adjacency add-remove", 0.6980),
        ("--gamma .04 --queries 40 --accountant rdp --classes 3", 2.0839),
        ("--gamma .04 --queries 40 --accountant rdp --level L2 --open", 2.0839),
        ("--gamma .04 --queries 40 --accountant rdp --level L2 --partitions 2", 1.4718),
        ("--gamma .04 --queries 20 --accountant rdp --level L2 --partitions 2 --silos 2", 1.4718),
        ("--gamma .04 --queries 40 --accountant paper --level L2 --partitions 2", 3.6927),
        ("--gamma .04 --queries 40 --accountant paper --level L2", 2.5911),
        ("--gamma .04 --queries 81 --accountant paper --level L2", 3.7183),
        ("--gamma .05 --queries 74 --accountant paper --level L2", 4.5088),
        ("--gamma .05 --queries 297 --accountant paper --level L2", 9.7776),
        ("--scale 25 --queries 40 --accountant rdp --classes 10", 1.0110),
        ("--scale 25 --queries 40 --classes 10", 0.9349),
        ("--sigma 40 --queries 100 --accountant rdp", 1.1580),
        ("--sigma 40 --queries 100 --accountant rdp --classes 10", 1.4781),
        ("--sigma 40 --queries 100 --classes 10", 1.3565),
    ],
)
def test_the_command_reproduces_known_values(words: str, expected: float) -> None:
    assert round(answer(words)["epsilon"], 4) == expected


@pytest.mark.parametrize(
    ("words", "mechanism", "scale"),
    [
        ("--mechanism gumbel --classes 10", "gumbel", 63.04),
        ("--mechanism gaussian --classes 10 --accountant rdp", "gaussian", 96.11),
        ("--classes 10", "gaussian", 89.17),
        ("--mechanism auto --classes 3", "gumbel", 63.04),
        ("--level L2 --classes 2 --open", "gumbel", 63.04),
        ("--classes 10 --adjacency add-remove", "gumbel", 31.52),
        ("--classes 10 --accountant paper", "laplace", 179.14),
    ],
)
def test_a_budget_of_2_for_1000_queries_needs_this_noise(words: str, mechanism: str, scale: float) -> None:
    result = answer(f"--epsilon 2 --queries 1000 {words}")
    assert (result["mechanism"], round(result["scale"], 2)) == (mechanism, scale)
    assert result["epsilon"] == pytest.approx(2, abs=1e-6)
    words = words.replace("--mechanism auto", "").replace(f"--mechanism {mechanism}", "")
    again = answer(f"--epsilon 2 --mechanism {mechanism} --scale {result['scale']} {words}")
    assert again["queries"] == 1000


def test_a_whole_party_at_l2_moves_all_votes_of_its_subsets() -> None:
    words = "--scale 100 --queries 40 --classes 10 --level L2 --partitions 2 --unit party --subsets 5"
    for adjacency in ("replace", "add-remove"):
        result = answer(f"{words} --adjacency {adjacency}")
        assert result["epsilon"] == total_epsilon([(find("gumbel")(100, 10, 10), 80)], DELTA)
        assert (result["unit"], result["adjacency"], result["voters_needed"]) == ("party", adjacency, None)
    assert "more voters would need more noise" in stdout(*words.split())
    row = answer(words.replace("--unit party", ""))
    assert row["unit"] == "patient"
    assert row["epsilon"] == total_epsilon([(find("gumbel")(100, 10, 2), 80)], DELTA)


def test_class_counts_and_silos_are_charged() -> None:
    words = "--sigma 40 --queries 40 --classes 10 --level L2 --partitions 2 --counts 15 --silos 3"
    query = find("gaussian")(40, 10, 2)
    for adjacency, shift in (("replace", 2), ("add-remove", 1)):
        result = answer(f"{words} --adjacency {adjacency}")
        assert result["epsilon"] == total_epsilon([(query, 240), (NoisyNumbers(15, shift, whole=True), 3)], DELTA)
        assert (result["silos"], result["counts_sigma"]) == (3, 15)
    assert "silos per person: 3, gaussian noise, scale 40, class counts with noise of 15" in stdout(*words.split())
    noise = answer("--epsilon 2 --queries 40 --classes 10 --level L2 --counts 15")
    assert noise["epsilon"] == pytest.approx(2, abs=1e-6)
    assert noise["scale"] > answer("--epsilon 2 --queries 40 --classes 10 --level L2")["scale"]


def test_the_answer_includes_win_probability_and_voters_needed() -> None:
    few = answer("--epsilon 5 --queries 100 --classes 10 --parties 10 --mechanism gumbel --accountant rdp")
    assert (few["voters"], round(few["right_label_wins"], 2)) == (10, 0.24)
    words = "--epsilon 5 --queries 100 --classes 10 --mechanism gumbel --accountant rdp --parties"
    assert answer(f"{words} {few['voters_needed']}")["right_label_wins"] >= 0.9
    assert answer(f"{words} {few['voters_needed'] - 1}")["right_label_wins"] < 0.9
    assert "If all 10 voters agree, their label wins 24.2 % of the time; 90 % takes 42 voters." in stdout(
        *words.split(), 10
    )


def test_multiplying_counts_by_s_equals_dividing_the_noise_by_s() -> None:
    """FedKT multiplies the counts at L1; scaling the noise too changes neither epsilon nor the forecast."""
    once = answer("--scale 10 --queries 50 --classes 5 --parties 12")
    thrice = answer("--scale 30 --queries 50 --classes 5 --parties 12 --partitions 3")
    for key in ("epsilon", "right_label_wins", "voters_needed"):
        assert thrice[key] == pytest.approx(once[key], rel=1e-9)


def test_the_comparison_lists_each_mechanism_at_equal_cost_with_its_error() -> None:
    rows = answer("--epsilon 2 --queries 100 --classes 10 --compare")["compared"]
    tight = {row["mechanism"]: row for row in rows if row["accountant"] == "tight"}
    assert tight.keys() == {"gumbel", "gaussian", "laplace"}
    assert all(row["epsilon"] == pytest.approx(2, abs=1e-6) for row in tight.values())
    assert [round(tight[m]["error"], 3) for m in ("gumbel", "gaussian")] == [0.142, 0.126]
    assert {row["accountant"] for row in rows if row["mechanism"] == "laplace"} == {"tight", "rdp", "paper", "advanced"}
    assert "14.2 %" in stdout("--epsilon", 2, "--queries", 100, "--classes", 10, "--compare")
    counted = answer("--epsilon 2 --queries 100 --level L2 --counts 30 --compare")["compared"]
    assert {row["accountant"] for row in counted} == {"tight", "rdp"}


def test_the_plot_includes_class_counts(tmp_path: Path) -> None:
    picture = tmp_path / "epsilon.png"
    stdout("--epsilon", 2, "--queries", 100, "--level", "L2", "--counts", 30, "--picture", picture)
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--epsilon 2 --queries 5 --delta 0", "delta must lie between 0 and 1"),
        ("--epsilon 2 --queries 5 --delta 1", "delta must lie between 0 and 1"),
        ("--epsilon 0 --queries 5", "epsilon must be a number above 0"),
        ("--scale 1 --queries 5 --mechanism auto", "auto chooses the noise, but --scale gives it"),
        ("--gamma 1 --queries 5 --mechanism auto", "auto chooses the noise, but --gamma gives it"),
        ("--epsilon 1 --queries 5 --mechanism confident", "needs threshold and answers, which only an election has"),
        ("--epsilon 1 --queries 5 --mechanism gumble", "unknown mechanism 'gumble'"),
        ("--sigma 1 --queries 5 --accountant paper", "covers Laplace noise only"),
        ("--epsilon 1 --queries 5 --mechanism gumbel --accountant advanced", "covers Laplace noise only"),
        ("--scale 1 --queries 5 --unit row", "--unit row is for level L2"),
        ("--scale 1 --queries 5 --subsets 5", "--subsets is for level L2"),
        ("--scale 1 --queries 5 --level L2 --parties 5", "--parties is for level L1"),
        ("--scale 1 --queries 5 --level L2 --unit party", "needs --subsets"),
        ("--scale 1 --queries 5 --silos 2", "--silos applies to rows at level L2"),
        ("--scale 1 --queries 5 --counts 2", "--counts applies to rows at level L2"),
        ("--scale 1 --queries 5 --level L2 --unit party --subsets 2 --counts 2", "have no bound"),
        ("--scale 1 --queries 5 --level L2 --counts 0", "--counts must be at least 1, not 0"),
        (
            "--gamma 1 --queries 5 --level L2 --counts 2 --accountant paper",
            "does not cover --counts, which adds gaussian noise",
        ),
        ("--epsilon 0.1 --queries 5 --level L2 --counts 2", "no noise scale meets epsilon 0.1"),
        ("--epsilon 0.1 --scale 1", "a single query costs epsilon"),
        ("--scale 16000 --queries 1 --delta 0.01 --compare", "nothing to compare"),
    ],
)
def test_invalid_questions_are_refused(words: str, sentence: str) -> None:
    assert sentence in answer(words, status=1)["error"]


def test_the_default_unit_at_l1_is_a_party() -> None:
    words = "--scale 25 --queries 40 --classes 10"
    assert answer(f"{words} --unit party") == answer(words)


def test_with_add_remove_at_l1_one_count_changes_by_all_partitions() -> None:
    """s² for Gaussian noise among more than two classes, not s²/2."""
    words = "--sigma 40 --queries 100 --classes 10 --partitions 2 --adjacency add-remove"
    by_hand = epsilon_from_renyi(lambda order: 100 * order * 2**2 / (2 * 40**2), DELTA)
    assert answer(f"{words} --accountant rdp")["epsilon"] == pytest.approx(by_hand, rel=1e-9)
    assert answer(words)["epsilon"] == total_epsilon([(NoisyNumbers(40, 0.9 * 2**2), 100)], DELTA)


@pytest.mark.parametrize("adjacency", ["replace", "add-remove", "swap"])
@pytest.mark.parametrize("ids", [True, False])
def test_the_calculator_states_the_unit_that_the_ledger_of_the_same_election_states(adjacency, ids) -> None:
    """With stable IDs all rows of an ID are protected together, so several rows of one person cost no more."""
    privacy = ob.L2(gamma=0.04, adjacency=adjacency, stable_ids=ids)
    ledger = calibrate(privacy, Spending(votes=Votes(40, 2, 1, 1)), ids).ledger()
    words = f"--gamma 0.04 --queries 40 --level L2 --adjacency {adjacency} {'--ids' if ids else '--no-ids'}"
    shown = " ".join(stdout(*words.split()).split())
    assert f"for each {UNIT_NAMES[ledger.unit]}, adjacency {adjacency}:" in shown
    assert ("patient (all rows with the same ID)" in shown) == ids
    assert ledger.neighbours in shown
    for sentence in (
        "the unit is a row: several rows of one person are a group and cost more",
        "the rows of an ID, and their number, may all differ",
    ):
        assert (sentence[1:] in shown) == (sentence in ledger.describe())
    assert answer(words)["epsilon"] == pytest.approx(ledger.epsilon)
