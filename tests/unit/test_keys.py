"""Subjects' keys: made once, found by tag, and gone for good."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from eventlog.errors import KeyDamaged, KeysExposed, SubjectGone
from eventlog.keys import SECRET_BYTES, FolderKeys, Keys, MemoryKeys, subject_tag


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where keys will be."""
    return tmp_path / "deep" / "keys"


@pytest.fixture(params=["memory", "folder"])
def keys(request: pytest.FixtureRequest, folder: Path) -> Keys:
    """No keys yet."""
    return MemoryKeys() if request.param == "memory" else FolderKeys(folder)


def test_a_subject_has_one_secret_and_no_other_has_it(keys: Keys) -> None:
    first, second = keys.secret("a"), keys.secret("b")
    assert len(first) == len(second) == SECRET_BYTES
    assert first != second
    assert keys.secret("a") == keys.find(subject_tag("a")) == first


def test_what_was_never_asked_for_is_not_made_by_looking(keys: Keys) -> None:
    assert keys.find(subject_tag("a")) is None


def test_a_destroyed_secret_never_comes_back(keys: Keys) -> None:
    keys.secret("a")
    other = keys.secret("b")
    for _ in range(2):
        keys.destroy("a")
        assert keys.find(subject_tag("a")) is None
        with pytest.raises(SubjectGone):
            keys.secret("a")
    assert keys.secret("b") == other


def test_a_subject_that_never_had_a_secret_gets_none_after_it_was_destroyed(keys: Keys) -> None:
    keys.destroy("a")
    with pytest.raises(SubjectGone):
        keys.secret("a")


def test_of_many_who_ask_first_all_get_the_same(keys: Keys) -> None:
    with ThreadPoolExecutor(16) as pool:
        assert len(set(pool.map(keys.secret, ["a"] * 64))) == 1


@pytest.mark.parametrize("make", [lambda keys: keys.secret, lambda keys: keys.destroy], ids=["secret", "destroy"])
def test_any_text_is_a_subject(keys: Keys, make: Callable[[Keys], Callable[[str], object]]) -> None:
    for subject in ("../../x", "ü/\n", "\ud800", "x" * 10_000, ""):
        make(keys)(subject)


def test_nobody_else_can_read_them_and_their_names_say_nothing(folder: Path) -> None:
    secret = FolderKeys(folder).secret("person-1")
    FolderKeys(folder).destroy("person-2")
    assert folder.stat().st_mode & 0o777 == 0o700
    files = {file.name: file for file in folder.iterdir()}
    assert set(files) == {subject_tag("person-1").hex(), subject_tag("person-2").hex() + ".gone"}
    assert {file.stat().st_mode & 0o777 for file in files.values()} == {0o600}
    assert files[subject_tag("person-1").hex()].read_bytes() == secret


def test_another_process_sees_at_once_what_this_one_did(folder: Path) -> None:
    ours, theirs = FolderKeys(folder), FolderKeys(folder)
    assert ours.secret("a") == theirs.secret("a")
    theirs.destroy("a")
    assert ours.find(subject_tag("a")) is None


def test_destroying_overwrites_the_bytes_before_their_name_goes(folder: Path) -> None:
    keys = FolderKeys(folder)
    secret = keys.secret("a")
    os.link(folder / subject_tag("a").hex(), folder / "held")
    keys.destroy("a")
    assert (folder / "held").read_bytes() != secret


@pytest.mark.parametrize("left", [bytes(SECRET_BYTES), b"", b"half"])
def test_a_destruction_cut_short_counts_and_is_completed(folder: Path, left: bytes) -> None:
    keys = FolderKeys(folder)
    keys.destroy("a")
    file = folder / subject_tag("a").hex()
    file.write_bytes(left)
    assert keys.find(subject_tag("a")) is None
    with pytest.raises(SubjectGone):
        keys.secret("a")
    assert not file.exists()


def test_a_folder_that_others_can_read_is_refused(folder: Path) -> None:
    keys = FolderKeys(folder)
    keys.secret("a")
    folder.chmod(0o750)
    with pytest.raises(KeysExposed, match="chmod 700"):
        keys.secret("a")
    with pytest.raises(KeysExposed):
        keys.find(subject_tag("a"))
    with pytest.raises(KeysExposed):
        keys.destroy("a")


@pytest.mark.parametrize("content", [b"", b"short", bytes(33)])
def test_a_damaged_key_is_named_and_not_used(folder: Path, content: bytes) -> None:
    keys = FolderKeys(folder)
    keys.secret("a")
    (folder / subject_tag("a").hex()).write_bytes(content)
    with pytest.raises(KeyDamaged, match=subject_tag("a").hex()):
        keys.secret("a")
    with pytest.raises(KeyDamaged):
        keys.find(subject_tag("a"))


def test_asking_and_destroying_side_by_side_leaves_no_key(folder: Path) -> None:
    keys = FolderKeys(folder)

    def ask(subject: str) -> bool:
        try:
            return len(keys.secret(subject)) == SECRET_BYTES
        except SubjectGone:
            return True

    subjects = [str(n) for n in range(40)]
    with ThreadPoolExecutor(8) as pool:
        asked = pool.map(ask, subjects * 3)
        list(pool.map(keys.destroy, subjects))
        assert all(asked)
    assert {file.suffix for file in folder.iterdir()} == {".gone"}
    assert all(keys.find(subject_tag(subject)) is None for subject in subjects)
