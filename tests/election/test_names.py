"""Names of parties: which are allowed, and what their files are called."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

import oneballot as ob
from oneballot.ballot.manifest import Manifest
from oneballot.election.names import PLAIN, check_party_name, file_name
from oneballot.errors import ElectionError

KOELN = "Universitätsklinikum Köln – Haus 3"
KEYS = ["ed25519:5b0aSJpmO3/nG5PTiCqAGpcFtSIw4ujn7+EMBZUK9a0=", "ed25519:sV5Ls6q5teFtga26CF3OPCLkR7xCMR2XqTpn4CdnRpM="]


@pytest.mark.parametrize("name", [KOELN, "Haus 3/4", "東京大学病院", "Клиника №1", 'it\'s "ours"', "a", "x" * 100])
def test_any_printable_text_is_a_name(name: str) -> None:
    assert check_party_name(name) == name


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "it is empty"),
        (" a", "begins or ends with a space"),
        ("a ", "begins or ends with a space"),
        ("../evil", "begins with a dot"),
        ("a\nb", r"U\+000A, which cannot be seen"),
        ("a\u202eb", r"U\+202E"),
        ("a\u200bb", r"U\+200B"),
        ("a\xa0b", r"U\+00A0"),
        ("a\ud800", r"U\+D800"),
        ("x" * 101, "it has 101 characters"),
    ],
)
def test_a_name_that_cannot_be_shown_reliably_is_refused_with_the_reason(name: str, why: str) -> None:
    with pytest.raises(ElectionError, match=why):
        check_party_name(name)


def test_a_decomposed_name_is_composed() -> None:
    assert check_party_name(unicodedata.normalize("NFD", KOELN)) == KOELN


@pytest.mark.parametrize("other", ["KÖLN", unicodedata.normalize("NFD", "Köln"), "köln", "Ko\u0308ln"])
def test_a_roster_refuses_names_that_differ_only_in_case_or_normalisation(other: str) -> None:
    with pytest.raises(ElectionError, match="differ only in case, spaces or the form of their characters"):
        ob.Election(classes=[0, 1], public=[[0.0], [1.0]], roster={"Köln": KEYS[0], other: KEYS[1]})


def test_a_roster_composes_its_names() -> None:
    roster = {unicodedata.normalize("NFD", KOELN): KEYS[0]}
    assert list(ob.Election(classes=[0, 1], public=[[0.0], [1.0]], roster=roster).roster) == [KOELN]


@pytest.mark.parametrize("name", ["clinic-a", "A.b_c-9", "x" * 64])
def test_names_that_were_always_allowed_are_their_own_file_name(name: str) -> None:
    assert file_name(name) == name


def test_other_names_get_a_readable_file_name_with_a_hash() -> None:
    assert re.fullmatch(r"_Universitatsklinikum-Koln-Haus-3-[0-9a-f]{16}", file_name(KOELN))
    assert re.fullmatch(r"_[0-9a-f]{16}", file_name("東京"))


@given(st.text(min_size=1, max_size=100), st.text(min_size=1, max_size=100))
def test_file_names_are_safe_and_different_for_different_parties(one: str, other: str) -> None:
    names = []
    for text in (one, other):
        try:
            names.append(check_party_name(text))
        except ElectionError:
            return
    files = [file_name(name) for name in names]
    assert (files[0] == files[1]) == (names[0] == names[1])
    for name, file in zip(names, files, strict=True):
        assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}", file)
        assert (file == name) == bool(PLAIN.fullmatch(name))


def test_a_manifest_refuses_a_name_that_is_not_composed() -> None:
    facts = {"format": 1, "election": "0" * 64, "method": "m", "privacy": {}, "files": {}, "versions": {}}
    assert Manifest.model_validate({**facts, "party": KOELN}).party == KOELN
    for name in (unicodedata.normalize("NFD", KOELN), "a\u202eb", ""):
        with pytest.raises(ValueError, match="party name"):
            Manifest.model_validate({**facts, "party": name})
