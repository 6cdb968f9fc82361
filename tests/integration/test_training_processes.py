"""Training in two processes: the same steps as in one, one last word, and nobody left behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from api.cli.train import TrainingAlgorithm as Stages
from api.cli.train import config_of
from api.house import House
from api.training.errors import BadConfig
from api.training.stage_process import PROCESS_ENDED, trainer_lines
from api.training.stages import Stage, train_stage
from api.training.verify import retrain
from eventlog.events import SftQuery
from eventlog.weights_folder import Base
from projections.datasets.row_columns import Kind
from tests.learned import frozen, play_sampled, with_models
from tests.tiny import dpo_rows, make_base, request, sampled, sft_rows, write_rows
from trainer.checkpoint import load_checkpoint, load_tensors
from trainer.devices import Device
from trainer.errors import NotSupported, StepUneven
from trainer.grpo import train_grpo
from trainer.request import Config, DpoConfig, GrpoConfig, Lora, SftConfig, TrainingRequest
from trainer.rows import read_rows
from trainer.shares import refuse_unshared
from trainer.stage import run_stage
from trainer.start import Line, StageStart

pytestmark = [
    pytest.mark.timeout(600),  # each process imports what training needs
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore:You are using 'rollout_func':UserWarning"),
]

ROOT = Path(__file__).parents[2]
LORA = Lora(rank=4, alpha=8)
NUMBERS: dict[str, Any] = {"learning_rate": "0.01", "lora": LORA, "device": "cpu"}
SFT = SftConfig(**NUMBERS, steps=7, rows_per_step=8)
DPO = DpoConfig(**NUMBERS, steps=5, pairs_per_step=6)
GRPO = GrpoConfig(**NUMBERS, steps=4, groups_per_step=2, passes=2, backend="trl")

Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    return make_base(tmp_path_factory.mktemp("bases"))


@pytest.fixture(scope="module")
def runs(base: Base) -> Rows:
    """18 runs in groups of 3: 18 rows, 12 pairs, 6 groups. Rounds of 8 rows leave 2 over."""
    return sampled(base, [3] * 6)


def rows_for(kind: Kind, runs: Rows) -> Rows:
    """The runs as what a stage trains on."""
    match kind:
        case "sft":
            return sft_rows(runs)
        case "dpo":
            return dpo_rows(runs)
        case "grpo":
            return runs


def together(config: Config) -> Config:
    """The same in two processes."""
    return config.model_copy(update={"processes": 2})


def begun(file: Path, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "trainer", str(file), *options],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def written(asked: TrainingRequest) -> Path:
    file = Path(asked.out).parent / "request.json"
    file.write_text(asked.model_dump_json())
    return file


def said_by(asked: TrainingRequest) -> list[dict[str, Any]]:
    """All lines of a run that ended well, and wrote no warning of processes that did not part."""
    with begun(written(asked)) as process:
        said, complained = process.communicate()
    assert process.returncode == 0, complained
    assert "destroy_process_group" not in complained
    assert "OMP_NUM_THREADS" not in complained
    return [json.loads(line) for line in said.splitlines()]


def steps(lines: Sequence[Line], name: str) -> list[Any]:
    return [line[name] for line in lines if line["kind"] == "step"]


InTwo = Callable[[Config], Sequence[Line]]
BNPO = GRPO.model_copy(update={"aggregation": "bnpo"})
DR_GRPO = GRPO.model_copy(update={"aggregation": "dr_grpo", "max_tokens": 9})


@pytest.fixture(scope="module")
def in_two(tmp_path_factory: pytest.TempPathFactory, base: Base, runs: Rows) -> InTwo:
    """What two processes say of a stage. Each is trained once."""

    @cache
    def said(config: Config) -> Sequence[Line]:
        kind: Kind = config.algorithm
        return said_by(request(tmp_path_factory.mktemp("two"), base, kind, rows_for(kind, runs), together(config)))

    return said


@pytest.mark.parametrize("config", [SFT, DPO, BNPO, GRPO, DR_GRPO], ids=["sft", "dpo", "bnpo", "grpo", "dr_grpo"])
def test_two_processes_take_the_steps_of_one(
    tmp_path: Path, base: Base, runs: Rows, in_two: InTwo, config: Config
) -> None:
    kind: Kind = config.algorithm
    alone: list[Line] = []
    one = run_stage(request(tmp_path, base, kind, rows_for(kind, runs), config), alone.append)
    lines = in_two(config)
    assert [line["kind"] for line in lines] == [*(line["kind"] for line in alone), "saved"]
    for measure in ("loss", "kl", "clip_fraction", "reward"):
        assert steps(lines, measure) == pytest.approx(steps(alone, measure), abs=1e-5)
    two = load_checkpoint(Path(str(lines[-1]["path"])), str(lines[-1]["checkpoint"]))
    assert one is not None
    assert (one.manifest.config.processes, two.manifest.config) == (1, together(config))
    tensors, others = load_tensors(one), load_tensors(two)
    assert {name: float((tensors[name] - others[name]).abs().max()) for name in tensors} == pytest.approx(
        dict.fromkeys(others, 0), abs=1e-4
    )


@pytest.mark.parametrize("config", [SFT, BNPO], ids=["sft", "bnpo"])
def test_processes_that_share_the_weights_out_take_the_steps_of_one_and_hold_about_half_each(
    tmp_path: Path, base: Base, runs: Rows, config: Config
) -> None:
    kind: Kind = config.algorithm
    alone: list[Line] = []
    short = config.model_copy(update={"steps": 2})
    one = run_stage(request(tmp_path / "one", base, kind, rows_for(kind, runs), short), alone.append)
    sharded = together(short).model_copy(update={"sharded": True})
    lines = said_by(request(tmp_path / "two", base, kind, rows_for(kind, runs), sharded))
    assert steps(lines, "loss") == pytest.approx(steps(alone, "loss"), abs=1e-5)
    (shares,) = (line for line in lines if line["kind"] == "shards")
    assert shares["held_mib"] == pytest.approx(shares["whole_mib"] / 2, rel=0.1)
    two = load_checkpoint(Path(str(lines[-1]["path"])), str(lines[-1]["checkpoint"]))
    assert one is not None
    tensors, others = load_tensors(one), load_tensors(two)
    assert {name: float((tensors[name] - others[name]).abs().max()) for name in tensors} == pytest.approx(
        dict.fromkeys(others, 0), abs=1e-4
    )


def test_one_process_has_nobody_to_share_the_weights_with() -> None:
    with pytest.raises(NotSupported, match="sharded"):
        refuse_unshared(SFT.model_copy(update={"sharded": True}), 8, 1)


@pytest.mark.parametrize("config", [DPO, BNPO], ids=["dpo", "bnpo"])  # sft: again in a log, below
def test_two_processes_give_the_same_each_time(
    tmp_path: Path, base: Base, runs: Rows, in_two: InTwo, config: Config
) -> None:
    kind: Kind = config.algorithm
    again = said_by(request(tmp_path, base, kind, rows_for(kind, runs), together(config)))
    lines = in_two(config)
    assert [line for line in again[:-1] if line["kind"] != "memory"] == [
        line for line in lines[:-1] if line["kind"] != "memory"
    ]
    assert again[-1]["checkpoint"] == lines[-1]["checkpoint"]
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == [lines[-1]["checkpoint"]]


def test_a_stage_of_two_processes_is_in_the_log_and_verified_by_two(
    empty_house: House, base: Base, tmp_path: Path
) -> None:
    play_sampled(empty_house, base, [2, 2])
    house = with_models(empty_house, tmp_path / "models")
    config = SFT.model_copy(update={"steps": 2, "rows_per_step": 2, "processes": 2})
    rows = frozen(house, SftQuery(runs="policy"))
    lines: list[Line] = []
    saved = train_stage(house, Stage(rows, base, None, config), lines.append)
    assert steps(lines, "step") == [1, 2]
    again = retrain(house, saved, base, lines.append)
    assert (again.is_equal, again.differing) == (True, ())
    assert steps(lines, "step") == [1, 2, 1, 2]


def endless(folder: Path, base: Base, rows: Rows) -> Path:
    """A request that two processes have long to do with."""
    config = together(SFT.model_copy(update={"steps": 100_000}))
    return written(request(folder, base, "sft", sft_rows(rows), config))


def ranks_of(file: Path) -> dict[int, int]:
    """The processes that take part in a request: their ranks and their numbers."""
    found = {}
    for each in Path("/proc").glob("[0-9]*"):
        try:
            words = (each / "cmdline").read_bytes().decode().split("\0")
        except OSError:
            continue
        if words[1:4] == ["-m", "trainer.rank", str(file)]:
            found[int(words[4])] = int(each.name)
    return found


def test_none_is_left_where_who_started_them_is_killed(tmp_path: Path, base: Base, runs: Rows) -> None:
    file = endless(tmp_path, base, runs)
    with closing(trainer_lines(file)) as lines:
        next(line for line in lines if line["kind"] == "step")
        assert ranks_of(file).keys() == {0, 1}
    assert ranks_of(file) == {}  # it was killed when nobody listened any more
    assert not (tmp_path / "checkpoints").exists()


def test_where_one_of_them_dies_the_stage_has_failed_and_the_other_is_ended(
    tmp_path: Path, base: Base, runs: Rows
) -> None:
    file = endless(tmp_path, base, runs)
    with closing(trainer_lines(file)) as lines:
        next(line for line in lines if line["kind"] == "step")
        os.kill(ranks_of(file)[1], signal.SIGKILL)
        *_, last = lines
    assert (last["kind"], last["error"]) == ("failed", PROCESS_ENDED)
    assert re.match("Process 1 of .* -9", last["message"])
    assert ranks_of(file) == {}
    assert not (tmp_path / "checkpoints").exists()


@pytest.mark.parametrize(
    ("config", "rows", "words"),
    [
        (SFT.model_copy(update={"rows_per_step": 3}), 18, r"3 rows in a step.*multiple of the 2.*`rows_per_step`"),
        (SFT, 5, "5 rows in a step"),
        (SFT.model_copy(update={"steps": 3}), 17, "1 rows in the last step"),
        (DPO.model_copy(update={"pairs_per_step": 5}), 18, "5 rows in a step.*`pairs_per_step`"),
    ],
)
def test_a_step_that_two_cannot_share_is_refused(config: Config, rows: int, words: str) -> None:
    with pytest.raises(StepUneven, match=words):
        refuse_unshared(together(config), rows, 2)
    refuse_unshared(config, rows, 1)


def test_rows_that_a_round_leaves_over_do_not_matter_where_no_round_is_ended() -> None:
    refuse_unshared(together(SFT.model_copy(update={"steps": 2})), 17, 2)


def test_groups_are_not_split(tmp_path: Path, base: Base, runs: Rows) -> None:
    import torch

    rows = read_rows(write_rows(tmp_path / "rows.parquet", "grpo", runs), "grpo")
    start = StageStart(base, Device("cpu", torch.float32, 0, 2), LORA, None, 3, 32)
    config = together(GRPO.model_copy(update={"groups_per_step": 3}))
    assert isinstance(config, GrpoConfig)
    with pytest.raises(StepUneven, match="3 groups in a step"):
        train_grpo(start, rows, config, lambda _line: None)


def test_what_is_refused_is_said_once(tmp_path: Path, base: Base, runs: Rows) -> None:
    asked = request(tmp_path, base, "grpo", runs, together(GRPO.model_copy(update={"backend": "own"})))
    with begun(written(asked)) as process:
        said, complained = process.communicate()
    (line,) = [json.loads(line) for line in said.splitlines()]
    assert (process.returncode, line["kind"], line["error"]) == (1, "failed", "NotSupported")
    assert "expected one process, or the backend trl" in line["message"]
    assert line["message"] in complained
    assert not Path(asked.out).exists()


def test_training_here_is_in_one_process(tmp_path: Path, base: Base, runs: Rows) -> None:
    with pytest.raises(NotSupported, match="2 processes, but 1 is"):
        run_stage(request(tmp_path, base, "sft", sft_rows(runs), together(SFT)), lambda _line: None)


def test_the_command_line_asks_for_processes_where_an_adapter_is_trained() -> None:
    given = {"steps": 1, "learning_rate": "0.1", "processes": 2}
    asked = config_of(Stages.SFT, None, given)
    assert isinstance(asked, SftConfig)
    assert asked.processes == 2
    with pytest.raises(BadConfig, match="wrong at processes"):
        config_of(Stages.WARMUP, None, given)
