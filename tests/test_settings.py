"""Invalid settings are rejected with the same messages for every method, every learner and privacy."""

import dataclasses
import pickle

import pytest

import oneballot as ob
from oneballot.errors import ElectionError
from oneballot.privacy.settings import PrivacySettings

METHODS = (ob.FedKT, ob.FedKD, ob.DOSFL, ob.Decoder, ob.Dense, ob.Ensemble, ob.Analytic)
LEARNERS = (ob.Kernel, ob.LightGBM, ob.Sklearn, ob.Torch, ob.XGBoost)


@pytest.mark.parametrize("cls", [*METHODS, *LEARNERS, PrivacySettings])
def test_an_unknown_setting_is_rejected_with_the_known_ones(cls) -> None:
    known = dataclasses.fields(cls)[0].name
    with pytest.raises(ElectionError, match=f"^[A-Za-z]+: unknown setting colour; available: {known}"):
        cls(colour="red")


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: ob.Analytic(intercept="x"), r"Analytic: intercept: Input should be a valid number.* \(got 'x'\)"),
        (lambda: ob.FedKD(scale=1), r"FedKD: scale: Input should be greater than or equal to 2 \(got 1\)"),
        (lambda: ob.FedKT(2, 0), r"FedKT: subsets: Input should be greater than 0 \(got 0\)"),
        (lambda: ob.FedKT(voting="loud"), r"FedKT: voting: .*'consistent', 'majority' or 'soft' \(got 'loud'\)"),
        (lambda: ob.Kernel(gamma=-1), r"Kernel: gamma: .*greater than 0 or .*'scale' \(got -1\)$"),
        (lambda: ob.Sklearn(params=3), r"Sklearn: params: .*dictionary \(got 3\)"),
        (lambda: ob.L2(epsilon="x"), r"privacy: epsilon: expected a number, not 'x'$"),
        (lambda: ob.Election(["a", "b"], privacy="L3"), r"privacy: level: .*'L0', 'L1' or 'L2' \(got 'L3'\)"),
        (lambda: dataclasses.replace(ob.FedKD(), passes=0), r"FedKD: passes: .* greater than 0 \(got 0\)"),
        (lambda: ob.Ensemble(k=0, folds=1), r"Ensemble: k: .*greater than 0 .*; folds: .*equal to 2 \(got 1\)"),
    ],
)
def test_an_error_names_the_class_the_setting_and_the_allowed_and_given_values(make, error) -> None:
    with pytest.raises(ElectionError, match=error):
        make()


def test_settings_are_frozen_comparable_and_picklable() -> None:
    made = ob.FedKD(scale=7)
    assert made == pickle.loads(pickle.dumps(made)) != ob.FedKD()  # noqa: S301
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.scale = 8
