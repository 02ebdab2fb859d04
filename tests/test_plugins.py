"""Plug-ins: methods, learners, formats, boxes, mechanisms and peers are found by module name and by entry point."""

import sys

import pytest

from oneballot import plugins
from oneballot.election.template import section
from oneballot.errors import ElectionError, OneBallotWarning

LEARNER = "from oneballot.interfaces import Learner\n\nclass Forest(Learner):\n    provides = fit_many = None\n"


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        ("methods", {"fedkt"}),
        ("learners", {"sklearn", "xgboost", "lightgbm"}),
        ("formats", {"skops", "ubjson", "lightgbm-text", "safetensors"}),
        ("boxes", {"folder"}),
        ("mechanisms", {"gumbel", "gaussian", "laplace", "confident"}),
        ("peers", {"solo", "fedavg", "fedprox", "fedavgm", "scaffold"}),
    ],
)
def test_every_module_of_a_folder_provides_a_class(group, expected):
    assert expected <= set(plugins.names(group))
    assert list(plugins.names(group)) == sorted(plugins.names(group))
    for name in plugins.names(group):
        assert isinstance(plugins.find(group, name), type)


@pytest.mark.parametrize("group", ["methods", "learners", "formats", "mechanisms", "peers"])
def test_a_class_has_the_name_of_its_file(group):
    for name in plugins.names(group):
        assert plugins.find(group, name).name == name


def test_private_modules_are_not_plug_ins():
    assert not any(name.startswith(("_", "-")) for name in plugins.names("learners"))
    with pytest.raises(ElectionError, match="unknown learner '_grow'"):
        plugins.find("learners", "_grow")


def test_an_unknown_name_is_rejected_with_all_names_and_the_closest():
    with pytest.raises(ElectionError, match=r"'xgbost'; available: .*sklearn.*\. Did you mean 'xgboost'\?"):
        plugins.find("learners", "xgbost")
    with pytest.raises(ElectionError, match=r"unknown format 'pickle'; available: [^?]*$"):
        plugins.find("formats", "pickle")


def test_a_plug_in_is_found_like_a_built_in(install):
    install("[oneballot.learners]\nacme = acme_ballots:Forest\n", f"{LEARNER}    name = 'acme'\n")
    assert {"acme", "sklearn"} <= set(plugins.names("learners"))
    assert plugins.find("learners", "acme").name == "acme"
    assert "acme" not in plugins.names("methods")


def test_a_plug_in_without_the_base_class_is_rejected(install):
    install("[oneballot.learners]\nacme = acme_ballots:Forest\n", "class Forest:\n    name = 'acme'\n")
    with pytest.raises(ElectionError, match=r"not a subclass of oneballot\.interfaces\.Learner, which every learner"):
        plugins.find("learners", "acme")
    with pytest.raises(ElectionError, match="a method must be a name or a Method, not dict"):
        plugins.instance("methods", {})


def test_the_base_class_is_named_as_plug_ins_import_it(install):
    install("[oneballot.targets]\nacme = acme_ballots:Dose\n", "class Dose:\n    name = 'acme'\n")
    with pytest.raises(
        ElectionError, match=r"not a subclass of oneballot\.election\.targets\.Target, which every target"
    ):
        plugins.find("targets", "acme")


def test_the_draft_of_a_plug_in_method_names_no_page_of_these_docs(install):
    install(
        "[oneballot.methods]\nacme = acme_ballots:M\n",
        "import oneballot as ob\nclass M(ob.Analytic):\n    name = 'acme'\n",
    )
    assert section("acme").startswith('[method]\nname = "acme"\n')
    assert "# docs/analytic.md" in section("analytic")


def test_naming_a_plug_in_does_not_import_it(install):
    install("[oneballot.boxes]\nacme = acme_ballots:Box\n", "raise RuntimeError('imported')\n")
    assert "acme" in plugins.names("boxes")
    assert "acme_ballots" not in sys.modules


def test_a_plug_in_cannot_replace_a_built_in(install):
    install(
        "[oneballot.learners]\nsklearn = acme_ballots:Forest\n"
        "[oneballot.formats]\nlightgbm-text = acme_ballots:Forest\n",
        "class Forest: ...\n",
    )
    assert plugins.names("learners").count("sklearn") == 1
    assert plugins.find("learners", "sklearn").__module__ == "oneballot.learners.sklearn"
    assert plugins.find("formats", "lightgbm-text").__module__ == "oneballot.formats.lightgbm_text"


@pytest.mark.parametrize("name", ["acme.forest", "_grow", "a b"])
def test_a_plug_in_may_have_any_name(install, name):
    install(f"[oneballot.learners]\n{name} = acme_ballots:Forest\n", f"{LEARNER}    name = {name!r}\n")
    assert plugins.find("learners", name).__name__ == "Forest"


def test_a_plug_in_whose_class_has_another_name_is_rejected(install):
    install("[oneballot.learners]\nacme = acme_ballots:Forest\n", f"{LEARNER}    name = 'other'\n")
    with pytest.raises(ElectionError, match="calls itself 'other'"):
        plugins.find("learners", "acme")


def test_a_plug_in_that_lacks_a_required_part_is_refused(install):
    code = "from oneballot.privacy.mechanisms import NoisyArgmax\n\nclass Noise(NoisyArgmax):\n    name = 'acme'\n"
    install("[oneballot.mechanisms]\nacme = acme_ballots:Noise\n", code)
    with pytest.raises(ElectionError, match="does not define log_loss, pure, sample, win_probability"):
        plugins.find("mechanisms", "acme")


@pytest.mark.parametrize("code", ["", "import a_library_that_is_not_there\n"])
def test_a_plug_in_that_cannot_be_imported_is_named(install, code):
    install("[oneballot.methods]\nacme = acme_ballots:Method\n", code)
    with pytest.raises(ElectionError, match=r"the method 'acme' \(acme_ballots:Method\) cannot be loaded: "):
        plugins.find("methods", "acme")


def test_a_command_that_lacks_a_part_gives_a_warning_and_the_others_still_work(install):
    install("[oneballot.commands]\nacme = acme_ballots\n", "SECTION = 'Boxes'\n\ndef command() -> None: ...\n")
    plugins.commands.cache_clear()
    try:
        with pytest.warns(OneBallotWarning, match=r"\(acme_ballots\) cannot be loaded: it has no EXAMPLE"):
            names = [name for name, _ in plugins.commands()]
        assert "reproduce" in names
        assert "acme" not in names
    finally:
        plugins.commands.cache_clear()
