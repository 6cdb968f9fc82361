"""A training run as a process of its own: lines on standard output, a checkpoint at the end, nothing in between."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from api.training.stage_process import PROCESS_ENDED, trainer_lines
from eventlog.weights_folder import Base
from tests.tiny import make_base, request, sampled
from trainer.checkpoint import load_checkpoint
from trainer.process import LEFT_ALONE
from trainer.request import GrpoConfig, Lora, TrainingRequest
from trainer.stage import run_stage

pytestmark = [
    pytest.mark.timeout(600),  # processes import what training needs
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

ROOT = Path(__file__).parents[2]
STEPS = 60
CONFIG = GrpoConfig(steps=STEPS, learning_rate="0.001", groups_per_step=2, lora=Lora(rank=2, alpha=4))
LONG = CONFIG.model_copy(update={"steps": 100_000})
SMALLEST_PIPE = 4096
"""Holds fewer lines than there are steps: a process whose lines are not read does not come to its end."""


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    return make_base(tmp_path_factory.mktemp("bases"))


def asked(folder: Path, base: Base) -> TrainingRequest:
    return request(folder, base, "grpo", sampled(base, [2, 3]), CONFIG)


def begun(file: Path, *options: str, stdin: int | None = None, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "trainer", str(file), *options],
        cwd=ROOT,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
    )


def written(folder: Path, wanted: TrainingRequest) -> Path:
    file = folder / "request.json"
    file.write_text(wanted.model_dump_json())
    return file


@pytest.mark.parametrize(
    "environment",
    [
        pytest.param({}, id="forked"),
        pytest.param({"PYTHONHASHSEED": "2"}, marks=pytest.mark.endure, id="from cold, with another hash seed"),
    ],
)
def test_a_killed_run_leaves_nothing_and_begins_again_to_the_same_checkpoint(
    tmp_path: Path, base: Base, environment: dict[str, str]
) -> None:
    wanted = asked(tmp_path, base)
    file = written(tmp_path, wanted)
    with begun(file) as process:
        assert process.stdout is not None
        fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, SMALLEST_PIPE)
        assert any(json.loads(line)["kind"] == "step" for line in process.stdout)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert not Path(wanted.out).exists()

    with begun(file, stdin=subprocess.DEVNULL, **environment) as process:  # nobody attends it: it needs no input
        said, _ = process.communicate()
    lines: list[dict[str, Any]] = [json.loads(line) for line in said.splitlines()]
    assert [line["kind"] for line in lines] == ["started", "memory", "groups", "staleness", *["step"] * STEPS, "saved"]
    last = lines[-1]
    assert load_checkpoint(Path(last["path"])).digest == last["checkpoint"]
    assert list(Path(wanted.out).iterdir()) == [Path(last["path"])]

    here = run_stage(asked(tmp_path / "here", base), lambda _line: None)
    assert here is not None
    assert here.digest == last["checkpoint"]


def test_an_attended_run_ends_with_who_attends_it_whatever_it_is_doing(tmp_path: Path, base: Base) -> None:
    wanted = asked(tmp_path, base)
    with begun(written(tmp_path, wanted), "--attended", stdin=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, SMALLEST_PIPE)
        assert any(json.loads(line)["kind"] == "step" for line in process.stdout)
        process.stdin.close()  # its lines could still be read: it waits for that, and would for ever
        assert process.wait() == LEFT_ALONE
    assert not Path(wanted.out).exists()


def test_who_reads_the_lines_of_a_process_hears_how_it_died(tmp_path: Path, base: Base) -> None:
    file = written(tmp_path, asked(tmp_path, base).model_copy(update={"config": LONG}))
    with closing(trainer_lines(file)) as lines:
        next(line for line in lines if line["kind"] == "step")
        (process,) = processes_of(file)
        os.kill(process, signal.SIGKILL)
        *_, last = lines
    assert (last["kind"], last["error"]) == ("failed", PROCESS_ENDED)
    assert last["message"].startswith("the process was killed (signal 9)")
    assert "rows a pass" in last["message"]


@pytest.mark.usefixtures("cold_starts")
def test_a_process_that_closed_its_output_may_still_say_why_it_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python closes what a raising program wrote to before it prints why; on a busy machine that takes a while."""
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nexec >&-\nsleep 0.3\necho 'no such optimizer' >&2\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setattr("api.training.stage_process.sys.executable", str(program))
    with closing(trainer_lines(tmp_path / "request.json")) as lines:
        (last,) = lines
    assert last["message"] == "the process exited with code 3: no such optimizer"


def test_a_process_ends_when_nobody_reads_its_lines_any_more(tmp_path: Path, base: Base) -> None:
    wanted = asked(tmp_path, base).model_copy(update={"config": LONG})
    file = written(tmp_path, wanted)
    with closing(trainer_lines(file)) as lines:
        next(line for line in lines if line["kind"] == "step")
        assert len(processes_of(file)) == 1
    assert processes_of(file) == []
    assert not Path(wanted.out).exists()


def processes_of(file: Path) -> list[int]:
    """The processes that train what a request asks for."""
    wanted = [b"-m", b"trainer", os.fsencode(file), b"--attended"]
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (each / "cmdline").read_bytes().split(b"\0")[1:5] == wanted:
                found.append(int(each.name))
    return found


def test_a_run_that_is_refused_says_why_and_writes_nothing(tmp_path: Path, base: Base) -> None:
    wanted = asked(tmp_path, base).model_copy(update={"base": str(tmp_path / "nowhere")})
    with begun(written(tmp_path, wanted)) as process:
        said, complained = process.communicate()
    (line,) = [json.loads(line) for line in said.splitlines()]
    assert (process.returncode, line["kind"], line["error"]) == (1, "failed", "BaseMissing")
    assert line["message"] in complained
    assert not Path(wanted.out).exists()


def test_without_a_request_it_says_what_it_wants() -> None:
    process = subprocess.run([sys.executable, "-m", "trainer"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (process.returncode, process.stdout) == (64, "")
    assert "REQUEST.json" in process.stderr
