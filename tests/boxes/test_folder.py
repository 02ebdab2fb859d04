"""A folder as a box: ballots are complete or absent, and never replaced."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from oneballot.boxes.folder import Folder
from oneballot.errors import AlreadyCast, BoxError


def test_a_delivered_ballot_is_listed_with_its_size(tmp_path: Path) -> None:
    box = Folder(tmp_path / "new" / "box")
    box.deliver("a", b"ballot")
    assert list(box.names()) == [("a", 6)]
    with box.open("a") as file:
        assert file.read() == b"ballot"


def test_delivering_the_same_bytes_again_changes_nothing(tmp_path: Path) -> None:
    box = Folder(tmp_path)
    box.deliver("a", b"ballot")
    box.deliver("a", b"ballot")
    assert os.listdir(tmp_path) == ["a.ballot"]


def test_another_ballot_under_the_same_name_is_refused(tmp_path: Path) -> None:
    box = Folder(tmp_path)
    box.deliver("a", b"first")
    with pytest.raises(AlreadyCast, match="never replaced"):
        box.deliver("a", b"second")
    assert (tmp_path / "a.ballot").read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["a.ballot"]


def test_exactly_one_of_several_simultaneous_deliveries_succeeds(tmp_path: Path) -> None:
    refused = []

    def deliver(i: int) -> None:
        try:
            Folder(tmp_path).deliver("a", b"%d" % i * 100_000)
        except AlreadyCast:
            refused.append(i)

    threads = [threading.Thread(target=deliver, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 7
    (survivor,) = {*range(8)} - {*refused}
    assert (tmp_path / "a.ballot").read_bytes() == b"%d" % survivor * 100_000
    assert os.listdir(tmp_path) == ["a.ballot"]


def test_files_that_are_not_ballots_are_ignored(tmp_path: Path) -> None:
    for name in (".part-xyz", "notes.txt", "a.ballot.part"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "folder.ballot").mkdir()
    assert list(Folder(tmp_path).names()) == []


def test_a_missing_folder_is_named_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(BoxError, match="there is no box"):
        list(Folder(tmp_path / "nowhere").names())


def test_an_unwritable_folder_is_named_in_the_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BoxError, match="cannot put a ballot into"):
        Folder(tmp_path / "file" / "box").deliver("a", b"")


def test_a_share_without_hard_links_accepts_ballots(tmp_path: Path, monkeypatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    box = Folder(tmp_path)
    box.deliver("a", b"first")
    box.deliver("a", b"first")
    with pytest.raises(AlreadyCast):
        box.deliver("a", b"second")
    assert (tmp_path / "a.ballot").read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["a.ballot"]


def test_a_file_is_not_a_box(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("x")
    box = Folder(tmp_path / "rows.csv")
    for use in (lambda: box.deliver("a", b"ballot"), lambda: list(box.names()), lambda: box.open("a")):
        with pytest.raises(BoxError, match=r"rows\.csv is a file; expected a folder"):
            use()
