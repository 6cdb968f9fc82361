"""The stand-alone verifier accepts what an archiver leaves, killed or not, of any log, and refuses what is damaged."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import io
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Engine

from eventlog.archive.drop import drop
from eventlog.archive.segments import segments
from eventlog.archive.write import archive
from eventlog.database import open_engine
from eventlog.events import EVENT_TYPES, AnyEvent
from eventlog.postgres import PostgresStore
from eventlog.store import Append, Position
from tests.conftest import Database
from tests.golden.test_golden_samples import golden_rows, sample

ROOT = Path(__file__).parents[2]
VERIFIER = ROOT / "docs" / "verify_archive.py"
END = len(golden_rows())
UPTO = Position(600)


@pytest.fixture
def folder(owner_engine: Engine, tmp_path: Path) -> Path:
    """The project's folder: the first 600 positions of the golden log, in three segments."""
    archive(owner_engine, tmp_path, UPTO, size=200)
    return tmp_path / "default"


def verifier(*arguments: object) -> tuple[int, str, str]:
    """The verifier's status and what it printed, run in this process: most of a process of its own is its start."""
    found = importlib.util.spec_from_file_location("verify_archive", VERIFIER)
    assert found is not None
    assert found.loader is not None
    program = importlib.util.module_from_spec(found)
    found.loader.exec_module(program)
    out, err = io.StringIO(), io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        patch.setattr(sys, "argv", [str(VERIFIER), *map(str, arguments)])
        code = program.main()
    return code, out.getvalue(), err.getvalue()


def verifier_alone(*arguments: object) -> tuple[int, str, str]:
    """The same as an auditor runs it: a process that sees nothing of this project."""
    done = subprocess.run(
        [sys.executable, "-I", VERIFIER, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


def test_the_verifier_needs_only_pyarrow_and_is_short() -> None:
    source = VERIFIER.read_text()
    assert len(source.splitlines()) < 150
    roots = {
        name.partition(".")[0]
        for node in ast.walk(ast.parse(source))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert roots - set(sys.stdlib_module_names) == {"pyarrow"}


def test_the_verifier_accepts_a_sound_folder_and_its_head(folder: Path) -> None:
    chain = golden_rows()[UPTO - 1].chain.hex()
    code, out, err = verifier_alone(folder)
    assert (code, err) == (0, "")
    assert verifier(folder) == (code, out, err)
    assert out.splitlines()[-1] == f"600 events in 3 segments verify; chain {chain}"
    assert verifier(folder, "--head", chain.upper())[0] == 0


def test_the_verifier_refuses_a_folder_that_ends_elsewhere(folder: Path) -> None:
    chain = golden_rows()[UPTO - 1].chain.hex()
    shutil.rmtree(folder / "401-600")
    assert verifier(folder)[0] == 0
    code, _, err = verifier(folder, "--head", chain)
    assert code == 1
    assert chain in err


def rewritten(change: Callable[[pl.DataFrame], pl.DataFrame]) -> Callable[[Path], None]:
    """Damage that hides: the manifest's lengths, digests and counts are put right for the changed file."""

    def damage(folder: Path) -> None:
        place = folder / "201-400"
        path = place / "rewards.parquet"
        change(pl.read_parquet(path)).write_parquet(path)
        said = json.loads((place / "segment.json").read_text())
        (file,) = [file for file in said["files"] if file["name"] == path.name]
        file.update(bytes=path.stat().st_size, sha256=_sha256(path), rows=len(pl.read_parquet(path)))
        file["types"] = dict(pl.read_parquet(path)["type"].value_counts().rows())
        (place / "segment.json").write_text(json.dumps(said))

    return damage


def _sha256(path: Path) -> str:
    done = subprocess.run(["sha256sum", path], capture_output=True, text=True, check=True)
    return done.stdout.split()[0]


def manifest(**changes: object) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        path = folder / "201-400" / "segment.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return damage


FIRST = pl.int_range(pl.len()) == 0
DAMAGE: dict[str, Callable[[Path], object]] = {
    "no middle segment": lambda folder: shutil.rmtree(folder / "201-400"),
    "no first segment": lambda folder: shutil.rmtree(folder / "1-200"),
    "a segment under another name": lambda folder: (folder / "201-400").rename(folder / "201-399"),
    "no file": lambda folder: (folder / "201-400" / "runs.parquet").unlink(),
    "no manifest": lambda folder: (folder / "201-400" / "segment.json").unlink(),
    "a manifest that is none": lambda folder: (folder / "201-400" / "segment.json").write_text("[]"),
    "another root": manifest(root="00" * 32),
    "another chain": manifest(chain="00" * 32),
    "another chain before it": manifest(previous="00" * 32),
    "another count": manifest(events=201),
    "another time": manifest(last_at="2026-01-01T00:00:00Z"),
    "another format": manifest(format_version=2),
    "fewer files": manifest(files=[]),
    "a file that is no Parquet": lambda folder: (folder / "201-400" / "runs.parquet").write_text("PAR1"),
    "a row less": rewritten(lambda frame: frame.slice(1)),
    "a row twice": rewritten(lambda frame: pl.concat([frame.head(1), frame])),
    "another payload": rewritten(
        lambda frame: frame.with_columns(pl.col("payload").str.replace('"score":0', '"score":1', literal=True))
    ),
    "a payload not in canonical form": rewritten(
        lambda frame: frame.with_columns(pl.col("payload").str.replace(":", ": ", literal=True))
    ),
    "another actor": rewritten(
        lambda frame: frame.with_columns(pl.when(FIRST).then(pl.lit("x")).otherwise("actor").alias("actor"))
    ),
    "another stream": rewritten(
        lambda frame: frame.with_columns(pl.when(FIRST).then(pl.lit("x")).otherwise("stream").alias("stream"))
    ),
    "another time of an event": rewritten(lambda frame: frame.with_columns(pl.col("at") + pl.duration(microseconds=1))),
    "another digest": rewritten(lambda frame: frame.with_columns(digest=pl.lit(bytes(32)))),
    "another typed value": rewritten(lambda frame: frame.with_columns(pl.col("terms.score") + 1)),
    "a typed value missing": rewritten(lambda frame: frame.with_columns(passed=pl.lit(None, dtype=pl.Boolean))),
    "a typed column missing": rewritten(lambda frame: frame.drop("passed")),
    "a column too many": rewritten(lambda frame: frame.with_columns(note=pl.lit("hello"))),
    "times without a zone": rewritten(lambda frame: frame.with_columns(pl.col("at").dt.replace_time_zone(None))),
    "positions as text": rewritten(lambda frame: frame.with_columns(pl.col("position").cast(pl.String))),
}


@pytest.fixture(scope="module")
def sound(
    server: Database,
    run_sql: Callable[[str], None],
    templates: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """A project's folder to be copied: the first 600 positions of the golden log."""
    name = f"flywheel_test_{os.getpid()}_sound"
    run_sql(f'CREATE DATABASE "{name}" TEMPLATE "{templates["seeded"]}"')
    owner = open_engine(server.named(name).owner_url)
    root = tmp_path_factory.mktemp("sound")
    archive(owner, root, UPTO, size=200)
    owner.dispose()
    run_sql(f'DROP DATABASE "{name}"')
    return root / "default"


@pytest.mark.parametrize("what", DAMAGE)
def test_the_verifier_refuses_a_damaged_folder(sound: Path, tmp_path: Path, what: str) -> None:
    folder = tmp_path / "default"
    shutil.copytree(sound, folder)
    DAMAGE[what](folder)
    code, _, err = verifier(folder)
    assert code == 1, err
    assert err.startswith("damaged after position "), err


@pytest.mark.parametrize("arguments", [(), ("/nowhere",), (".", "--head"), (".",), ("a", "b")])
def test_the_verifier_used_wrongly_says_so(arguments: tuple[str, ...]) -> None:
    code, out, err = verifier(*arguments)
    assert (code, out) == (64, "")
    assert err


def test_the_verifier_alone_explains_itself_and_exits_with_what_it_found(tmp_path: Path) -> None:
    assert verifier_alone("--help")[0] == 0
    assert verifier_alone(tmp_path / "nowhere")[0] == 64


ARCHIVER = """
import sys
from pathlib import Path
from eventlog.archive.write import archive
from eventlog.database import open_engine
from eventlog.store import Position
archive(open_engine(sys.argv[1]), Path(sys.argv[2]), Position(int(sys.argv[3])), size=20)
"""


@pytest.mark.parametrize(
    "waits", [(0.0, 0.03, 0.1), pytest.param((0.0, 0.01, 0.03, 0.06, 0.1, 0.15), marks=pytest.mark.endure)]
)
def test_an_archiver_that_is_killed_leaves_whole_segments_and_the_next_goes_on(
    owner_engine: Engine, engine: Engine, database: Database, tmp_path: Path, waits: tuple[float, ...]
) -> None:
    kills = 0
    for wait_s in waits:
        before = len(list(segments(owner_engine)))
        process = subprocess.Popen([sys.executable, "-c", ARCHIVER, database.owner_url, tmp_path, str(UPTO)], cwd=ROOT)
        while len(list(segments(owner_engine))) == before and process.poll() is None:
            time.sleep(0.01)
        time.sleep(wait_s)
        process.send_signal(signal.SIGKILL)
        kills += process.wait() == -signal.SIGKILL
        for place in (tmp_path / "default").glob("[0-9]*"):
            assert (place / "segment.json").exists()
    assert kills > 0
    archive(owner_engine, tmp_path, UPTO, size=20)
    assert [manifest.first for manifest in segments(engine)] == list(range(1, UPTO, 20))
    assert sorted(p.name for p in (tmp_path / "default").iterdir()) == sorted(m.folder for m in segments(engine))
    assert verifier(tmp_path / "default")[0] == 0
    assert drop(owner_engine, tmp_path, UPTO) == UPTO
    assert [row.position for row in PostgresStore(engine, archive=tmp_path).read_stored()] == list(range(1, END + 1))


WORDS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=12)


def events() -> st.SearchStrategy[AnyEvent]:
    odd = st.builds(lambda text: sample("MemoryQuarantined", reason=text), WORDS)
    return st.sampled_from(sorted(EVENT_TYPES)).map(sample) | odd


@st.composite
def logs(draw: st.DrawFn) -> list[tuple[str, AnyEvent, str, bool]]:
    size = draw(st.integers(2, 40))
    return [(draw(WORDS), draw(events()), draw(WORDS), draw(st.booleans())) for _ in range(size)]


def test_any_log_comes_back_from_any_segments_and_any_border(clone: Callable[[str], Database], tmp_path: Path) -> None:
    made = itertools.count()

    @settings(max_examples=12, deadline=None, suppress_health_check=[*HealthCheck])
    @given(log=logs(), size=st.integers(1, 15), cut=st.floats(0, 1))
    def check(log: list[tuple[str, AnyEvent, str, bool]], size: int, cut: float) -> None:
        owner, folder = open_engine(clone("empty").owner_url), tmp_path / str(next(made))
        store = PostgresStore(owner, archive=folder)
        for number, (stream, event, actor, is_caused) in enumerate(log):
            store.append([Append(stream, (event,), actor, cause=Position(number) if is_caused and number else None)])
        before = list(store.read())
        upto = Position(round(cut * (len(log) - 1)))
        archive(owner, folder, upto, size=size)
        drop(owner, folder, upto)
        assert list(store.read()) == before
        for stream in {event.stream for event in before}:
            assert list(store.read(stream=stream)) == [event for event in before if event.stream == stream]
        if upto:
            code, out, err = verifier(folder / "default")
            assert (code, err) == (0, "")
            assert out.splitlines()[-1].startswith(f"{upto} events")
        owner.dispose()

    check()
