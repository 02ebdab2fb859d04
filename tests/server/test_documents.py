"""The model card and the TRIPOD+AI checklist of an outcome: true, safe to publish, and never lost to a tally."""

from __future__ import annotations

import re
import shutil
import warnings
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oneballot as ob
from oneballot.server.documents import CARD, CHECKLIST, write_document
from oneballot.server.documents.card import model_card
from oneballot.server.documents.facts import Facts, ModelFile, Performance
from oneballot.server.documents.markdown import code, escaped, quoted
from oneballot.server.documents.tripod import ITEMS, tripod_checklist
from oneballot.server.verdict import Verdict
from oneballot.simulation import simulate_parties

yaml = pytest.importorskip("yaml")
FILE = ModelFile("model-0.skops", "skops", "0" * 64)
HOSTILE = [
    "<script>alert(1)</script>", "a | b", "`x`", "](javascript:alert(1))", "![x](https://evil.example/x.png)",
    "---\nlicense: mit", "-->", "<!--", 'a"b', "${7*7}", "www.evil.example", "\u202enaps", "x" * 500, "\\", "**bold**",
]  # fmt: skip


@pytest.fixture
def outcome(election, parties) -> ob.Outcome:
    return simulate_parties(election, parties).outcome


def card_of(outcome: ob.Outcome, **settings: Any) -> str:
    return model_card(Facts(outcome, FILE, **settings))


def metadata(card: str) -> Any:
    begin, front, _ = re.split(r"^---$", card, maxsplit=2, flags=re.M)
    assert begin == ""
    return yaml.safe_load(front)


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.found.add(tag)
        self.found |= {f"{name}={value}" for name, value in attrs if name != "class"}


def html_parts(text: str) -> set[str]:
    """The HTML elements of a rendered document, and their attributes."""
    markdown = pytest.importorskip("markdown_it")
    rendered = markdown.MarkdownIt("commonmark", {"html": True}).enable("table").render(text)
    parser = Tags()
    parser.feed(rendered)
    return parser.found


def test_saving_an_outcome_writes_a_card_and_a_checklist(outcome, tmp_path: Path) -> None:
    outcome.save(tmp_path)
    card = (tmp_path / CARD).read_text("utf-8")
    (model,) = tmp_path.glob("model-*")
    for fact in ("`fedkt`", "10 classes", "DecisionTreeClassifier", outcome.election, model.name, "5 ballots"):
        assert fact in card
    about = metadata(card)
    assert about["pipeline_tag"] == "tabular-classification"
    assert "federated-learning" in about["tags"]
    assert "To be completed by people" in card
    assert (tmp_path / CHECKLIST).read_text("utf-8").count("\n| ") >= 52


def test_the_checklist_has_the_27_items_of_tripod_ai_and_names_its_source(outcome) -> None:
    numbers = [number for items in ITEMS.values() for number in items]
    assert len(numbers) == len(set(numbers)) == 52
    assert sorted({int(re.sub("[a-z]", "", number)) for number in numbers}) == list(range(1, 28))
    text = tripod_checklist(Facts(outcome, FILE))
    assert "10.1136/bmj-2023-078378" in text
    for number in ("8a", "12c", "15", "22", "26"):
        (line,) = re.findall(rf"^\| {number} \|.*$", text, re.M)
        assert not line.endswith("| *To be completed by people* |")
    assert re.search(r"^\| 17 \|.*\| \*To be completed by people\* \|$", text, re.M)


def test_no_document_names_a_party(outcome, tmp_path: Path) -> None:
    named = replace(
        outcome,
        voted={f"klinikum-{i}": ballot for i, ballot in enumerate(outcome.voted.values())},
        spoiled={"klinikum-x": "bad signature of klinikum-x"},
        without=("klinikum-y",),
    )
    named.save(tmp_path)
    for name in (CARD, CHECKLIST):
        assert "klinikum" not in (tmp_path / name).read_text("utf-8")
    assert "5 ballots were counted, 1 rejected, 1 left out on request" in (tmp_path / CARD).read_text("utf-8")


def test_at_l1_the_documents_say_nothing_about_ballots_and_are_those_of_the_published_outcome(
    make_election, parties
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ob.OneBallotWarning)
        election = make_election(method=ob.FedKT.paper(subsets=2), privacy=ob.L1(gamma=0.5))
        outcome = simulate_parties(election, parties).outcome
    server, public = (Facts(each, FILE) for each in (outcome, outcome.published()))
    assert model_card(server) == model_card(public)
    assert tripod_checklist(server) == tripod_checklist(public)
    assert "does not state how many parties" in model_card(server)
    assert "epsilon" in model_card(server)
    assert "differential-privacy" in metadata(model_card(server))["tags"]


def test_a_collapsed_model_a_rehearsal_and_missing_tests_are_limitations(outcome) -> None:
    shares = dict.fromkeys(map(str, range(10)), 0.0) | {"3": 1.0}
    collapsed = replace(outcome, verdict=Verdict(200, shares))
    text = card_of(collapsed)
    assert "**The model has collapsed: it predicts 3 for every public row.**" in text
    assert "not tested on labelled rows" in text
    rehearsed = outcome.ledger.model_copy(update={"level": "L2", "rehearsal": True})
    assert "**It is a rehearsal and not private:**" in card_of(replace(outcome, ledger=rehearsed))


def test_an_outcome_of_an_earlier_version_gets_a_card_too(outcome) -> None:
    text = card_of(replace(outcome, about={}, verdict=None))
    assert "The outcome does not state the method" in text
    assert "DecisionTreeClassifier" in text


def test_known_metrics_are_in_the_card_its_metadata_and_the_checklist(outcome) -> None:
    known = Performance(
        200, "test.csv", {"accuracy": 0.91, "auc": float("nan")}, {"accuracy": "accuracy"}, {"accuracy": (0.88, 0.94)}
    )
    text = card_of(outcome, performance=known)
    assert "| accuracy | 0.910 | 0.880 to 0.940 |" in text
    assert "not tested" not in text
    (result,) = metadata(text)["model-index"][0]["results"]
    assert [metric["value"] for metric in result["metrics"]] == [0.91]
    assert "accuracy 0.910" in tripod_checklist(Facts(outcome, FILE, known))


def test_hugging_face_reads_the_metadata(outcome) -> None:
    hub = pytest.importorskip("huggingface_hub")
    known = Performance(200, "test.csv", {"accuracy": 0.91}, {"accuracy": "accuracy"})
    data = hub.ModelCard(card_of(outcome, performance=known)).data
    assert data.library_name == "oneballot"
    assert data.eval_results[0].metric_value == 0.91


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_add_no_markup_and_no_metadata(name, outcome) -> None:
    other = f"{name} 2"
    schema = ob.Schema.model_validate(
        {
            "label": name,
            "id": f"{name} 3",
            "columns": [
                {"kind": "number", "name": other, "range": [0, 1]},
                {"kind": "category", "name": "ward", "categories": [name, other]},
            ],
        }
    )
    classes = (name, other, *map(str, range(8)))
    verdict = Verdict(100, dict.fromkeys(classes, 0.0) | {name: 1.0})
    about = {**outcome.about, "name": name}
    known = Performance(5, name, {name: 0.5}, {name: name})
    hostile = replace(outcome, schema=schema, classes=classes, verdict=verdict, about=about)
    hostile.model.target_ = replace(outcome.target, classes=classes)
    card = card_of(hostile, performance=known)
    front = metadata(card)
    assert front.keys() == {"model_name", "library_name", "pipeline_tag", "license", "tags", "model-index"}
    assert front["license"] == "unknown"
    assert not any(ord(c) < 32 or c == "\u202e" for c in card.replace("\n", ""))
    body = card.split("\n---\n", 1)[1]
    expected = {"h1", "h2", "p", "table", "thead", "tbody", "tr", "th", "td", "ul", "li", "strong", "code", "pre", "a"}
    expected |= {"href=https://pypi.org/project/oneballot/", "href=https://doi.org/10.1136/bmj-2023-078378"}
    assert html_parts(body) <= expected
    checklist = tripod_checklist(Facts(hostile, FILE, known))
    assert html_parts(checklist) <= expected | {"em"}
    for text in (body, checklist):
        for line in re.findall(r"^\|.*\|$", text, re.M):
            assert len(re.split(r"(?<!\\)\|", line)) in (4, 5, 7)


def test_names_keep_their_text_where_it_is_harmless() -> None:
    assert code("dose mg/l") == "`dose mg/l`"
    assert code("a`b") == "``a`b``"
    assert code("`") == "`` ` ``"
    assert code("a|b") == r"`a\|b`"
    assert escaped("a_b <i> https://x.y") == r"a\_b \<i\> https\://x.y"
    assert yaml.safe_load(quoted('a: "b"\n# c\u0007')) == 'a: "b" # c'


def test_saving_again_replaces_documents_that_nobody_edited(outcome, make_election, parties, tmp_path: Path) -> None:
    outcome.save(tmp_path)
    other = simulate_parties(make_election(seed=3), parties).outcome
    other.save(tmp_path)
    assert other.election in (tmp_path / CARD).read_text("utf-8")
    assert not (tmp_path / "README.new.md").exists()


def test_an_edited_card_is_kept_and_the_new_one_is_written_beside_it(
    outcome, make_election, parties, tmp_path: Path
) -> None:
    outcome.save(tmp_path)
    path = tmp_path / CARD
    path.write_text(path.read_text("utf-8").replace("who should use this model", "for triage"), "utf-8")
    edited = path.read_bytes()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        outcome.save(tmp_path)  # nothing is new
    assert not (tmp_path / "README.new.md").exists()
    other = simulate_parties(make_election(seed=3), parties).outcome
    with pytest.warns(ob.OneBallotWarning, match=r"README\.md was edited and is kept.*README\.new\.md"):
        other.save(tmp_path)
    assert path.read_bytes() == edited
    assert other.election in (tmp_path / "README.new.md").read_text("utf-8")
    assert ob.Outcome.load(tmp_path).election == other.election
    outcome.save(tmp_path)  # the edited card is true again
    assert not (tmp_path / "README.new.md").exists()
    assert path.read_bytes() == edited


@pytest.mark.parametrize("content", [b"my own notes", b"", b"\xff\xfe"])
def test_a_readme_of_your_own_is_kept(content, tmp_path: Path) -> None:
    (tmp_path / CARD).write_bytes(content)
    with pytest.warns(ob.OneBallotWarning, match="was edited"):
        assert write_document(tmp_path / CARD, "text\n") == tmp_path / "README.new.md"
    assert (tmp_path / CARD).read_bytes() == content


def test_an_edited_document_beside_an_edited_one_is_kept_too(tmp_path: Path) -> None:
    (tmp_path / CARD).write_bytes(b"mine")
    with pytest.warns(ob.OneBallotWarning, match="was edited"):
        first = write_document(tmp_path / CARD, "one\n")
    first.write_bytes(first.read_bytes().replace(b"one", b"merged"))
    with pytest.warns(ob.OneBallotWarning, match=r"README\.new\.md"):
        assert write_document(tmp_path / CARD, "one\n") == first  # it was made of this text
    with pytest.warns(ob.OneBallotWarning, match=r"README\.new\.2\.md"):
        second = write_document(tmp_path / CARD, "two\n")
    assert second == tmp_path / "README.new.2.md"
    assert first.read_bytes().startswith(b"merged\n")
    (tmp_path / CARD).unlink()
    write_document(tmp_path / CARD, "three\n")
    assert {path.name for path in tmp_path.iterdir()} == {CARD, first.name}


def test_line_ends_of_windows_are_no_edit(tmp_path: Path) -> None:
    write_document(tmp_path / CARD, "one\ntwo\n")
    (tmp_path / CARD).write_bytes((tmp_path / CARD).read_bytes().replace(b"\n", b"\r\n"))
    assert write_document(tmp_path / CARD, "three\n") == tmp_path / CARD
    assert b"three" in (tmp_path / CARD).read_bytes()


def test_an_outcome_without_documents_is_loaded(outcome, tmp_path: Path) -> None:
    outcome.save(tmp_path / "one")
    shutil.copytree(tmp_path / "one", tmp_path / "two", ignore=shutil.ignore_patterns("*.md"))
    loaded = ob.Outcome.load(tmp_path / "two")
    assert loaded.about == ob.Outcome.load(tmp_path / "one").about == dict(outcome.about)
    assert np.array_equal(loaded.model.output_names_, outcome.model.output_names_)
