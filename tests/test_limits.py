"""Absurd settings are refused when an election is read, with the largest value that is allowed."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from typer.testing import CliRunner

import oneballot as ob
from oneballot import plugins
from oneballot.cli import app
from oneballot.errors import ElectionError
from oneballot.limits import MOST, check_toml
from oneballot.party.submit import choose_learner

HUGE = 10**12
PLUGINS = [(kind, name) for kind in ("methods", "learners", "peers") for name in plugins.names(kind)]


@pytest.mark.parametrize(("kind", "name"), PLUGINS)
def test_every_size_of_every_method_learner_and_peer_has_a_limit(kind: str, name: str) -> None:
    plugin = plugins.find(kind, name)
    numbers = [f.name for f in dataclasses.fields(plugin) if "int" in str(f.type).lower()]
    for setting in numbers:
        with pytest.raises(ElectionError, match=f"{setting}: .*(at most|less than or equal|whole number)"):
            plugin(**{setting: HUGE})


@pytest.mark.parametrize(
    "learner",
    [
        'name = "sklearn"\nparams = { n_estimators = 1000000000000 }',
        'name = "sklearn"\nestimator = "MLPClassifier"\nparams = { hidden_layer_sizes = [100, 1000000000000] }',
        'name = "sklearn"\nestimator = "Pipeline"\nparams = { steps = [{ estimator = "PCA", params = { n_components = '
        '1000000000000 } }, { estimator = "GaussianNB" }] }',
        'name = "xgboost"\nparams = { num_parallel_tree = 1000000000000 }',
        'name = "lightgbm"\nparams = { max_bin = 1000000000000 }',
        'name = "kernel"\nlandmarks = 1000000000000',
        'name = "torch"\nepochs = 1000000000000',
        'name = "torch"\nepochs = 1e300',
    ],
)
def test_check_refuses_absurd_settings_of_learners(learner: str, clinic: Path, monkeypatch) -> None:
    text = drafted(clinic, monkeypatch)
    Path("election.toml").write_text(
        text[: text.index("[learners")] + f"[learners.all]\n{learner}\n\n" + text[text.index("[privacy") :]
    )
    assert "at most" in refused()


@pytest.mark.parametrize(
    ("setting", "limit"),
    [
        ("max_ballot_mb = 100000000000000000000", "65,536"),
        (f"max_ballot_mb = 0x{'f' * 100_000}", "65,536 (got a whole number of about 120,"),
        ("max_model_seconds = 1000000000", "86,400"),
        ("quorum = 1000000000000", "1,000,000"),
        (f"seed = 0x{'f' * 10_000}", f"{2**64:,}"),
        (f"classes = [0x{'f' * 10_000}, 1]", f"{2**63 - 1:,}"),
    ],
)
def test_check_refuses_absurd_settings_of_elections(setting: str, limit: str, clinic: Path, monkeypatch) -> None:
    text = drafted(clinic, monkeypatch)
    name = setting.partition(" ")[0]
    kept = [line for line in text.splitlines() if not line.startswith(f"{name} =")]
    Path("election.toml").write_text("\n".join([setting, *kept]))
    assert f"{name}: at most {limit}" in refused()


def test_limits_hold_in_python_and_for_a_partys_own_learner(election) -> None:
    with pytest.raises(ElectionError, match="max_ballot_mb: at most 65,536"):
        dataclasses.replace(election, max_ballot_mb=10**20)
    with pytest.raises(ElectionError, match=r"Sklearn: params.n_estimators: at most 100,000 \(got 1000000000000\)"):
        ob.Sklearn("RandomForestClassifier", {"n_estimators": HUGE})
    with pytest.raises(ElectionError, match="rounds: at most 100,000"):
        choose_learner(election, f"xgboost:rounds={HUGE}")


def test_every_default_is_within_the_limits() -> None:
    for kind, name in PLUGINS:
        made = plugins.find(kind, name)()
        for field in dataclasses.fields(made):
            value = getattr(made, field.name)
            assert field.name not in MOST or not isinstance(value, int) or value <= MOST[field.name] / 2


def drafted(clinic: Path, monkeypatch) -> str:
    monkeypatch.chdir(clinic)
    assert CliRunner().invoke(app, ["new", "election.toml", "--public", "public.csv", "--label", "ill"]).exit_code == 0
    return Path("election.toml").read_text()


def refused() -> str:
    done = CliRunner().invoke(app, ["check", "election.toml"])
    assert done.exit_code == 1, done.output
    assert len(done.output) < 1000
    return " ".join(done.output.split())


def test_only_long_dotted_keys_and_numbers_are_refused() -> None:
    """Numbers, texts with dots, and lists of thousands of codes are no keys."""
    codes = ", ".join(f'"I{i}.{i}"' for i in range(5_000))
    numbers = ", ".join(f"{i}.5" for i in range(5_000))
    sentence = "a." * 40 + " " + "." * 500
    check_toml(f'classes = [{codes}]\nranges = [{numbers}]\n# {sentence}\na.b."c.d" = 1\n' + "x" * 2**20)
    for part in ("a", '"a b"', "'='", '"a\\"b"', "7"):
        with pytest.raises(ValueError, match="line 2 has more than 100 parts"):
            check_toml("first = 1\n" + " . ".join([part] * 102) + " = 1")
    with pytest.raises(ValueError, match="line 2 has more than 500,000 digits"):
        check_toml("a = 1\nb = 0x" + "f" * 500_001)
