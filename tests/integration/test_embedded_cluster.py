"""The embedded database as it is used: started, found again, killed, copied, and asked what its roles may do."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy
from psycopg.conninfo import make_conninfo

from api.cli.main import run_command
from api.embedded import down, endpoints, status, up
from api.embedded.account import unshare_works
from api.embedded.binaries import binaries_folder
from api.embedded.errors import (
    DatabaseBusy,
    ForeignHome,
    HomeNotWritable,
    OtherMajorVersion,
    PasswordsMissing,
    StartFailed,
    StillStarting,
    UnsafeFolder,
)
from api.embedded.layout import STORES, folder, lock_file
from api.embedded.process import is_alive
from api.embedded.record import passwords_file, read_passwords, read_setup

REPOSITORY = Path(__file__).parents[2]
NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root chooses another way to run")

Homes = Callable[[str], Path]


def removed(home: Path) -> None:
    """Stop the home's server and remove everything that belongs to the home."""
    (folder(home) / "data" / "recovery.signal").unlink(missing_ok=True)
    with suppress(StillStarting, ForeignHome, HomeNotWritable):
        down(home)
        setup = read_setup(home)
        if setup is not None and setup.way == "copied":
            shutil.rmtree(setup.store)
            with suppress(OSError):
                STORES.rmdir()


def furnished(pattern: Path, home: Path) -> Path:
    """Make a home that was set up and does not run, by copying one where it keeps all it has below itself."""
    setup = read_setup(pattern)
    if setup is not None and setup.way != "copied":
        shutil.copytree(pattern, home)
    else:
        up(home)
        down(home)
    return home


@pytest.fixture(scope="module")
def scratch() -> Iterator[Path]:
    """A folder with a short path, so that sockets lie inside the homes."""
    with tempfile.TemporaryDirectory(prefix="fw-") as place:
        yield Path(place)


@pytest.fixture(scope="module")
def pattern(scratch: Path) -> Iterator[Path]:
    """A home that was set up and stopped, to be copied rather than set up again for each test."""
    home = scratch / "pattern"
    up(home)
    assert down(home)
    yield home
    removed(home)


@pytest.fixture
def homes(scratch: Path) -> Iterator[Homes]:
    """Folders for homes, whose servers are stopped when the test ends."""
    made: list[Path] = []

    def named(name: str) -> Path:
        made.append(Path(tempfile.mkdtemp(dir=scratch)) / name)
        made[-1].parent.mkdir(parents=True, exist_ok=True)
        return made[-1]

    yield named
    for home in made:
        removed(home)
        shutil.rmtree(scratch / home.relative_to(scratch).parts[0])


@pytest.fixture
def home(pattern: Path, homes: Homes) -> Path:
    """A home that was set up and does not run."""
    return furnished(pattern, homes("my home"))


def connect(url: str, **other: Any) -> psycopg.Connection[Any]:
    """Connect as the SQLAlchemy URL says, or with another user, password or database."""
    said = sqlalchemy.make_url(url)
    parts = {"user": said.username, "password": said.password, "dbname": said.database, **said.query, **other}
    return psycopg.connect(make_conninfo(**parts), autocommit=True)


def answer(url: str, query: str) -> Any:
    """Return the first field of the first row."""
    with connect(url) as connection:
        row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


def pid_of(home: Path) -> int:
    """Return the process of the home's running server."""
    found = status(home)
    assert found.running
    assert found.pid is not None
    return found.pid


def killed(home: Path) -> int:
    """Kill the home's server as hard as can be, and wait until the system has buried it."""
    pid = pid_of(home)
    os.kill(pid, signal.SIGKILL)
    while is_alive(pid):
        time.sleep(0.01)
    return pid


def script(text: str, home: Path, *, python: str = sys.executable, **how: Any) -> subprocess.Popen[str]:
    """Start a Python of its own; in the text, `home` is the home and all of api.embedded is there."""
    before = "import sys, time; from pathlib import Path; from api.embedded import *; home = Path(sys.argv[1])\n"
    return subprocess.Popen(
        [python, "-c", before + text, str(home)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=how.pop("cwd", REPOSITORY),
        **how,
    )


def ended(child: subprocess.Popen[str]) -> str:
    """Return what a script printed, once it has ended well."""
    output, errors = child.communicate(timeout=60)
    assert child.returncode == 0, errors
    return output.strip()


def test_a_new_home_is_set_up_started_and_attached_to(homes: Homes) -> None:
    home = homes("a new home")
    began = time.monotonic()
    first = up(home)
    pid, attached = pid_of(home), time.monotonic()
    assert up(home) == first == endpoints(home)
    assert pid_of(home) == pid
    assert time.monotonic() - attached < (attached - began) / 2
    engine = sqlalchemy.create_engine(first.app_url)
    with engine.connect() as connection:
        assert (
            connection.scalar(sqlalchemy.text("SELECT current_user || '@' || current_database()"))
            == "flywheel@flywheel"
        )
    engine.dispose()
    assert answer(first.owner_url, "SELECT current_user") == "flywheel_owner"


def test_status_up_and_down(home: Path) -> None:
    assert not status(home).running
    assert status(home).version == "18"
    assert down(home) is False
    up(home)
    found = status(home)
    assert found.version is not None
    assert found.version.startswith("18.")
    assert found.started_at is not None
    assert abs(time.time() - found.started_at.timestamp()) < 60
    assert (found.sockets / f".s.PGSQL.{found.port}").is_socket()
    assert (found.data / "PG_VERSION").is_file()
    assert down(home) is True
    assert (status(home).running, status(home).pid, status(home).started_at) == (False, None, None)
    assert down(home) is False


def test_settings_roles_and_files(home: Path) -> None:
    urls = up(home)
    expected = {
        "listen_addresses": "",
        "fsync": "on",
        "synchronous_commit": "on",
        "full_page_writes": "on",
        "jit": "off",
        "wal_compression": "pglz",
        "shared_buffers": "128MB",
        "max_connections": "100",
        "TimeZone": "UTC",
        "data_checksums": "on",
        "password_encryption": "scram-sha-256",
        "server_encoding": "UTF8",
    }
    assert {name: answer(urls.app_url, f"SHOW {name}") for name in expected} == expected
    locale = "SELECT concat_ws(' ', datlocprovider, datlocale) FROM pg_database WHERE datname = 'flywheel'"
    assert answer(urls.app_url, locale) == "b C.UTF-8"
    passwords = read_passwords(home)
    assert passwords is not None
    with connect(urls.app_url, user="flywheel_admin", password=passwords.flywheel_admin) as admin:
        methods = admin.execute("SELECT DISTINCT auth_method FROM pg_hba_file_rules").fetchall()
        roles = admin.execute(
            "SELECT rolname, rolsuper, rolcreatedb, rolcreaterole, rolcanlogin FROM pg_roles"
            " WHERE rolname LIKE 'flywheel%' ORDER BY rolname"
        ).fetchall()
        admin.execute("CREATE ROLE stranger LOGIN PASSWORD 'x'")
    assert methods == [("scram-sha-256",)]
    assert roles == [
        ("flywheel", False, False, False, True),
        ("flywheel_admin", True, True, True, True),
        ("flywheel_owner", False, True, False, True),
    ]
    with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
        connect(urls.app_url, user="stranger", password="x")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        connect(urls.app_url, password="wrong")
    assert folder(home).stat().st_mode & 0o777 == 0o700
    assert passwords_file(home).stat().st_mode & 0o777 == 0o600
    log = (status(home).data.parent / "server.log").read_text()
    assert "database system is ready" in log
    assert not any(secret in log for secret in json.loads(passwords_file(home).read_text()).values())


def test_the_application_owns_nothing_and_creates_nothing(home: Path) -> None:
    urls = up(home)
    with connect(urls.owner_url) as owner:
        owner.execute("CREATE TABLE of_the_owner (x int)")
        owner.execute("CREATE DATABASE a_template")
        owner.execute("DROP DATABASE a_template")
    with connect(urls.app_url) as application:
        for refused in (
            "CREATE TABLE t (x int)",
            "CREATE SCHEMA s",
            "CREATE DATABASE d",
            "CREATE ROLE r",
            "SELECT * FROM of_the_owner",
            "ALTER ROLE flywheel SUPERUSER",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                application.execute(refused.encode())
        owned = application.execute("SELECT count(*) FROM pg_class WHERE relowner = 'flywheel'::regrole").fetchone()
        assert owned == (0,)


def test_a_killed_server_is_recovered(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("FLYWHEEL_DATABASE_URL", "FLYWHEEL_OWNER_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FLYWHEEL_HOME", str(home))
    urls = up(home)
    with connect(urls.owner_url) as owner:
        owner.execute("CREATE TABLE kept AS SELECT generate_series(1, 1000) AS x")
    pid = killed(home)
    assert not status(home).running
    assert run_command(["db", "status", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert run_command(["doctor", "--json"]) == 1
    (said,) = (check for check in json.loads(capsys.readouterr().out) if check["name"] == "database")
    assert (told["running"], said["ok"]) == (False, False)
    assert f"PostgreSQL is not running; its data is in {told['data']}" in said["found"]
    assert up(home) == urls
    assert pid_of(home) != pid
    assert answer(urls.owner_url, "SELECT count(*) FROM kept") == 1000


def test_a_number_given_to_another_program_is_not_taken_for_the_server(home: Path) -> None:
    up(home)
    pid = killed(home)
    pid_file = status(home).data / "postmaster.pid"
    pid_file.write_text(pid_file.read_text().replace(str(pid), str(os.getppid()), 1))
    (status(home).sockets / ".s.PGSQL.5432.lock").write_text(pid_file.read_text())
    assert not status(home).running
    assert down(home) is False
    assert answer(up(home).app_url, "SELECT 1") == 1


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lets a process adopt orphans and leave them unburied")
def test_a_zombie_is_not_taken_for_the_server(home: Path) -> None:
    text = """
import ctypes, os, signal
assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0  # PR_SET_CHILD_SUBREAPER, and nobody waits
up(home)
pid = status(home).pid
os.kill(pid, signal.SIGKILL)
while (state := Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]) != "Z":
    time.sleep(0.01)
assert not status(home).running
up(home)
assert Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
print(status(home).pid != pid, down(home), status(home).running)
"""
    assert ended(script(text, home)) == "True True False"


def test_a_long_recovery_is_waited_for(home: Path) -> None:
    data = status(home).data
    (data / "recovery.signal").touch()
    with (data / "postgresql.auto.conf").open("a") as file:
        file.write("restore_command = 'sleep 0.8; false'\n")
    with pytest.raises(StillStarting, match="starting PostgreSQL"):
        up(home, timeout_s=0.5)
    pid = pid_of(home)
    assert answer(up(home).app_url, "SELECT pg_is_in_recovery()") is False
    assert pid_of(home) == pid


def test_two_processes_set_one_home_up(homes: Homes) -> None:
    home = homes("shared")
    children = [script("print(up(home).app_url, status(home).pid)", home) for _ in range(2)]
    first, second = map(ended, children)
    assert first == second == f"{endpoints(home).app_url} {pid_of(home)}"


def test_the_server_outlives_the_process_that_started_it(home: Path) -> None:
    child = script("up(home); print('up', flush=True); time.sleep(60)", home, stdin=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == "up\n"
    pid = pid_of(home)
    child.kill()
    assert child.communicate(timeout=10) == ("", "")
    assert os.getsid(pid) not in (os.getsid(0), child.pid)
    assert answer(up(home).app_url, "SELECT 1") == 1
    assert pid_of(home) == pid


def test_homes_run_beside_each_other(home: Path, homes: Homes) -> None:
    other = furnished(home, homes("other"))
    up(home)
    up(other)
    assert pid_of(home) != pid_of(other)
    assert down(home)
    assert answer(endpoints(other).app_url, "SELECT 1") == 1


def test_a_home_with_a_very_long_path(pattern: Path, homes: Homes) -> None:
    home = homes("/".join(["a long folder name" * 5] * 3))
    furnished(pattern, home)
    urls = up(home)
    assert answer(urls.app_url, "SELECT 1") == 1
    outside = status(home).sockets
    assert outside.stat().st_mode & 0o777 == 0o700
    assert down(home)
    if outside.parent == Path(tempfile.gettempdir()):
        assert not outside.exists()
        outside.mkdir()
        outside.chmod(0o777)
        with pytest.raises(UnsafeFolder, match="Remove it"):
            up(home)
        outside.rmdir()


def test_a_deleted_home_leaves_no_server_that_harms_the_next(home: Path, homes: Homes) -> None:
    up(home)
    pid = pid_of(home)
    shutil.rmtree(home)
    assert answer(up(home).app_url, "SELECT 1") == 1
    assert not is_alive(pid)
    assert (status(home).sockets / ".s.PGSQL.5432").is_socket()


def test_what_is_wrong_with_a_home_is_named_before_anything_starts(pattern: Path) -> None:
    version, passwords = status(pattern).data / "PG_VERSION", passwords_file(pattern)
    version.write_text("16\n")
    with pytest.raises(OtherMajorVersion, match="to PostgreSQL 16, expected 18"):
        up(pattern)
    version.write_text("18\n")
    passwords.rename(passwords.with_suffix(".away"))
    with pytest.raises(PasswordsMissing, match=r"passwords\.json"):
        up(pattern)
    passwords.with_suffix(".away").rename(passwords)
    with lock_file(pattern).open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(DatabaseBusy, match="flywheel db status"):
            up(pattern, timeout_s=0.1)
    assert not status(pattern).running


def test_a_server_that_does_not_start_says_why(home: Path) -> None:
    with (status(home).data / "postgresql.auto.conf").open("a") as file:
        file.write("shared_buffers = 'plenty'\n")
    with pytest.raises(StartFailed, match='invalid value for parameter "shared_buffers": "plenty"'):
        up(home)


def test_a_home_that_cannot_be_written(scratch: Path) -> None:
    (scratch / "file").touch()
    with pytest.raises(HomeNotWritable, match="FLYWHEEL_HOME"):
        up(scratch / "file" / "home")
    (scratch / "file").unlink()


@needs_root
def test_root_in_a_namespace(homes: Homes) -> None:
    home = homes("namespace")
    home.mkdir(mode=0o700)
    if not unshare_works(binaries_folder() / "bin" / "postgres", home):
        pytest.skip("user namespaces are refused on this machine")
    urls = up(home, way="namespace")
    assert answer(urls.app_url, "SELECT 1") == 1
    assert json.loads((folder(home) / "setup.json").read_text())["way"] == "namespace"
    assert status(home).data.stat().st_uid == 0
    assert Path(f"/proc/{pid_of(home)}/uid_map").read_text().split() == ["1000", "0", "1"]


@needs_root
def test_root_on_copies_for_another_user(homes: Homes) -> None:
    home = homes("copied")
    home.mkdir(mode=0o700)
    urls = up(home, way="copied")
    pid = pid_of(home)
    assert answer(urls.app_url, "SELECT 1") == 1
    data = status(home).data
    assert data.parent.parent == STORES
    assert data.stat().st_uid == Path(f"/proc/{pid}").stat().st_uid != 0
    assert data.parent.stat().st_uid == 0
    assert down(home)
    assert up(home) == urls
    assert status(home).data == data
    killed(home)
    assert answer(up(home).app_url, "SELECT 1") == 1


def ordinary_python() -> str | None:
    """Return a Python that an ordinary user may run with what we have installed."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for python in (sys.executable, shutil.which(version, path="/usr/local/bin:/usr/bin")):
        with suppress(PermissionError):
            if python and ordinary("pass", Path("/"), python).communicate() == ("", ""):
                return python
    return None


def ordinary(text: str, home: Path, python: str) -> subprocess.Popen[str]:
    """Start a script as an ordinary user."""
    path = os.pathsep.join([str(REPOSITORY), *(entry for entry in sys.path if entry.endswith("-packages"))])
    how = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
    return script(text, home, python=python, cwd="/", env={"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}, **how)


def test_an_ordinary_user(homes: Homes, scratch: Path) -> None:
    python = ordinary_python()
    if python is None:
        pytest.skip("no Python here can be run by an ordinary user with the installed packages")
    home = homes("ordinary")
    if os.geteuid() == 0:
        scratch.chmod(0o755)
        os.chown(home.parent, NOBODY, NOBODY)
    text = """
from api.embedded.errors import HomeNotWritable
from api.embedded.record import read_setup
up(home); up(home)
pid = status(home).pid
try:
    up(Path("/proc/home"))
except HomeNotWritable:
    print(read_setup(home).way, status(home).version[:3], down(home), down(home), status(home).running)
up(home)
"""
    assert ended(ordinary(text, home, python)) == "direct 18. True False False"
    if os.geteuid() == 0:
        for ask in (up, down, status, endpoints):
            with pytest.raises(ForeignHome, match="user id 65534"):
                ask(home)
    assert ended(ordinary("print(down(home))", home, python)) == "True"


def test_endpoints_hide_their_passwords(pattern: Path) -> None:
    assert repr(endpoints(pattern)) == "Endpoints()"
