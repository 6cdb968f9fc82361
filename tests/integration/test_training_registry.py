"""Training stages in the log: from a dataset to a checkpoint, back again, and to those who serve it."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fastapi.testclient import TestClient

from api.cli.main import run_command
from api.datasets import freeze
from api.house import House
from api.training.errors import NotPublished, OtherKind, TrainedTwice, TrainingEnded
from api.training.lineage import checkpoints_touched, lineage
from api.training.publish import publish
from api.training.stage_process import Line
from api.training.stages import MOST_RECORDED, Stage, train_stage
from api.training.verify import retrain
from api.training.weights import base_of, folder_of
from eventlog.blobs import Blob
from eventlog.chain import canonical
from eventlog.errors import BytesRemain, CheckpointAltered
from eventlog.events import (
    AnyEvent,
    CheckpointSaved,
    DpoConfig,
    DpoQuery,
    GrpoConfig,
    GrpoQuery,
    SftConfig,
    SftQuery,
    TrainingProgressed,
    WarmupConfig,
)
from eventlog.store import Append
from eventlog.weights_folder import Base, read_base
from projections.checkpoints import WEIGHTS, WeightsState
from projections.frozen_datasets import DatasetState
from projections.trainings import TRAININGS
from tests.conftest import Database
from tests.golden.test_golden_samples import sample
from tests.learned import as_executor, frozen, play_sampled, with_models
from tests.tiny import make_base
from tests.unit.test_policy_samples import MICRO, PolicyCall, PolicyRun, play, siblings
from trainer.checkpoint import load_checkpoint

from .test_rest_samples import client_of

pytestmark = [
    pytest.mark.timeout(300),  # the first to run imports what training needs
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.usefixtures("stages_here"),
]

GRPO = GrpoConfig(steps=2, learning_rate="0.001", groups_per_step=2)


def quiet(_line: Any) -> None:
    """Nobody watches."""


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    return make_base(tmp_path_factory.mktemp("bases"))


@pytest.fixture
def house(empty_house: House, base: Base, tmp_path: Path) -> House:
    """A house on a log with two groups of runs that the base drew."""
    play_sampled(empty_house, base, [2, 3])
    return with_models(empty_house, tmp_path / "models")


def kinds(house: House) -> list[str]:
    """The types of the events that training appended, in order."""
    names = {"TrainingStarted", "TrainingProgressed", "TrainingFailed", "CheckpointSaved", "CheckpointPublished"}
    return [recorded.event.type for recorded in house.store.read() if recorded.event.type in names]


def test_a_stage_is_trained_once_verified_by_training_again_and_walked_back_to_its_events(
    house: House, base: Base
) -> None:
    stage = Stage(frozen(house, GrpoQuery(reward="score")), base, None, GRPO)
    saved = train_stage(house, stage, quiet)
    assert kinds(house) == ["TrainingStarted", "TrainingProgressed", "TrainingProgressed", "CheckpointSaved"]
    assert (saved.algorithm, saved.base, saved.dataset) == ("grpo", base.digest, stage.dataset.dataset)
    training = house.views().find(TRAININGS)[stage.name]
    assert (training.status, training.checkpoint, training.step, training.of) == ("saved", saved.checkpoint, 2, 2)
    assert training.stage_config() == GRPO

    head = house.store.head()
    assert train_stage(house, stage, quiet) == saved
    assert house.store.head() == head

    folder = folder_of(house, saved.checkpoint[:8])
    assert load_checkpoint(folder, saved.checkpoint).manifest.upto == stage.dataset.upto
    assert (folder / "curves.png").read_bytes().startswith(b"\x89PNG")
    left = house.settings.model_folder / f".verifying-{house.settings.project}-{stage.name}-left"
    left.mkdir()
    (left / "out").write_text("what one that was killed left")
    again = retrain(house, saved, base, quiet)
    assert (again.is_equal, again.differing) == (True, ())
    assert not left.exists()

    (step,) = lineage(house, house.views(), saved.checkpoint).lineage
    assert {group: [run.run for run in runs] for group, runs in step.groups.items()} == {
        "g0": ["g0-s0", "g0-s1"],
        "g1": ["g1-s0", "g1-s1", "g1-s2"],
    }
    for run in (run for runs in step.groups.values() for run in runs):
        stream = [recorded.position for recorded in house.store.read(stream=f"run/{run.run}")]
        assert (run.first, run.last) == (stream[0], stream[-1])
    assert checkpoints_touched(house, house.views(), "g1-s2").checkpoints == (saved.checkpoint,)

    with client_of(house) as client:
        _look_over_rest(client, saved.checkpoint, msgspec.to_builtins(step))

    tensors = folder / "adapter_model.safetensors"
    tensors.write_bytes(tensors.read_bytes()[:-1] + b"x")
    with pytest.raises(CheckpointAltered):
        folder_of(house, saved.checkpoint)


def _look_over_rest(client: TestClient, digest: str, step: dict[str, Any]) -> None:
    (listed,) = client.get("/v1/checkpoints").json()["checkpoints"]
    shown = client.get(f"/v1/checkpoints/{digest}").json()
    assert shown["checkpoint"] == listed
    assert shown["training"]["status"] == "saved"
    assert client.get(f"/v1/checkpoints/{digest}/lineage").json() == {"lineage": [json.loads(json.dumps(step))]}
    assert client.get(f"/v1/checkpoints/{'0' * 64}").status_code == 404


@pytest.fixture
def store() -> Iterator[Path]:
    """A model store that others may enter."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_a_base_that_was_warmed_up_is_in_the_log_and_stages_go_on_from_it(
    house: House, base: Base, store: Path
) -> None:
    rows = frozen(house, SftQuery(runs="policy"))
    warm = train_stage(house, Stage(rows, base, None, WarmupConfig(steps=2, learning_rate="0.001")), quiet)
    assert warm.is_base
    found = base_of(house, warm.checkpoint[:8], None)
    assert found.digest == warm.checkpoint == base_of(house, None, warm.checkpoint).digest

    first = train_stage(house, Stage(rows, found, None, SftConfig(steps=1, learning_rate="0.001")), quiet)
    pairs = frozen(house, DpoQuery())
    second = train_stage(house, Stage(pairs, found, first, DpoConfig(steps=1, learning_rate="0.001")), quiet)
    steps = lineage(house, house.views(), second.checkpoint).lineage
    assert [step.checkpoint.algorithm for step in steps] == ["dpo", "sft", "warmup"]
    known = checkpoints_touched(house, house.views(), "g0-s0")  # the one that passed: chosen, and imitated
    assert set(known.checkpoints) == {warm.checkpoint, first.checkpoint, second.checkpoint}
    known = checkpoints_touched(house, house.views(), "g0-s1")  # it failed: rejected in a pair, nothing else
    assert known.checkpoints == (second.checkpoint,)

    event = publish(house, warm, None, "peft", str(store), "test")
    assert (event.form, read_base(Path(event.place)).digest) == ("base", warm.checkpoint)


def test_what_is_refused_before_the_first_step_leaves_nothing(house: House, base: Base, tmp_path: Path) -> None:
    pairs, rows = frozen(house, DpoQuery()), frozen(house, SftQuery(runs="policy"))
    other = make_base(tmp_path / "other", architecture="llama", vocabulary=290)
    with pytest.raises(OtherKind, match="dpo"):
        train_stage(house, Stage(pairs, base, None, GRPO), quiet)
    with pytest.raises(TrainingEnded, match="OtherTokenizer"):
        train_stage(house, Stage(rows, other, None, SftConfig(steps=1, learning_rate="0.001")), quiet)
    assert kinds(house) == []
    assert house.views().find(WEIGHTS) == {}


def test_what_fails_after_it_began_is_recorded(house: House, tmp_path: Path) -> None:
    other = make_base(tmp_path / "other", seed=2)
    stage = Stage(frozen(house, GrpoQuery(reward="score")), other, None, GRPO)
    with pytest.raises(TrainingEnded, match="StalePolicy"):
        train_stage(house, stage, quiet)
    state = house.views().find(TRAININGS)[stage.name]
    assert (state.status, state.error, state.attempts) == ("failed", "StalePolicy", 1)
    assert kinds(house) == ["TrainingStarted", "TrainingFailed"]


def test_a_stage_that_was_killed_is_begun_again_and_gives_the_same_checkpoint(house: House, base: Base) -> None:
    class Killed(Exception):
        """The process that trains is gone."""

    def die(line: Any) -> None:
        if line["kind"] == "step":
            raise Killed

    rows = frozen(house, GrpoQuery(reward="score"))
    config = GRPO.model_copy(update={"steps": 60})
    with pytest.raises(Killed):
        train_stage(house, Stage(rows, base, None, config), die)
    assert house.views().find(TRAININGS)[Stage(rows, base, None, config).name].status == "started"
    saved = train_stage(house, Stage(rows, base, None, config), quiet)
    assert house.views().find(TRAININGS)[saved.training].attempts == 2
    events = [recorded.event for recorded in house.store.read(stream=f"training/{saved.training}")]
    steps = [event.step for event in events if isinstance(event, TrainingProgressed)]
    assert (steps[-1], len(steps)) == (60, MOST_RECORDED)


@pytest.mark.parametrize(
    ("kind", "said", "key"),
    [
        ("started", sample("TrainingProgressed"), "progress:{}:1:1"),
        ("saved", sample("CheckpointSaved"), "checkpoint:{}"),
    ],
)
def test_what_another_attempt_recorded_otherwise_meanwhile_is_no_result_of_this_one(
    house: House, base: Base, kind: str, said: AnyEvent, key: str
) -> None:
    """The lock of the first attempt went with its connection, and the second one was quicker."""
    stage = Stage(frozen(house, GrpoQuery(reward="score")), base, None, GRPO)
    theirs = Append("another/attempt", (said,), "trainer", key=key.format(stage.name))

    def meanwhile(line: Line) -> None:
        if line["kind"] == kind:
            house.store.append([theirs])

    with pytest.raises(TrainedTwice, match=theirs.key):
        train_stage(house, stage, meanwhile)
    saved = list(house.store.read(types=["CheckpointSaved"]))
    assert [recorded.stream for recorded in saved] == (["another/attempt"] if kind == "saved" else [])


def test_executors_read_what_was_published_and_cannot_write_it(house: House, base: Base, store: Path) -> None:
    saved = train_stage(house, Stage(frozen(house, GrpoQuery(reward="score")), base, None, GRPO), quiet)
    event = publish(house, saved, base, "peft", str(store), "test")
    assert event.place == f"{store}/{saved.checkpoint}/peft"
    assert publish(house, saved, base, "peft", str(store), "test") == event
    assert [place.place for place in house.views().find(WEIGHTS)[saved.checkpoint].published] == [event.place]

    tensors = f"{event.place}/adapter_model.safetensors"
    assert as_executor("import sys; assert open(sys.argv[1], 'rb').read()", tensors).code == 0
    for program in ("open(sys.argv[1], 'ab')", "os.unlink(sys.argv[1])", "open(sys.argv[1] + '.new', 'wb')"):
        attempt = as_executor(f"import os, sys; {program}", tensors)
        assert (attempt.code, "PermissionError" in attempt.said) == (1, True), attempt.said

    Path(tensors).chmod(0o644)
    Path(tensors).write_bytes(b"something else")
    with pytest.raises(NotPublished, match="expected an unused path"):
        publish(house, saved, base, "peft", str(store), "test")

    pytest.importorskip("obstore")
    url = f"file://{store / 'bucket'}"
    for _ in range(2):
        event = publish(house, saved, base, "gguf-adapter", url, "test")
    assert event.place == f"{url}/{saved.checkpoint}/gguf-adapter"
    (file,) = (store / "bucket" / saved.checkpoint / "gguf-adapter").iterdir()
    assert file.read_bytes()[:4] == b"GGUF"


def test_a_checkpoint_whose_rows_were_erased_answers_erased(
    empty_house: House, base: Base, flywheel: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    for run in siblings(MICRO, 0):
        play(empty_house.store, empty_house.blobs, replace(run, subject="ann"))
    rows = frozen(empty_house, GrpoQuery(reward="score"))
    facts = {"training": "t", "dataset": rows.dataset, "upto": rows.upto, "base": base.digest, "parent": None}
    begun, saved = sample("TrainingStarted", **facts), sample("CheckpointSaved", **facts)
    assert isinstance(saved, CheckpointSaved)
    empty_house.store.append([Append("training/t", (begun, saved), "test")])
    assert flywheel("checkpoint", "lineage", saved.checkpoint)[0] == 0
    with suppress(BytesRemain):  # the key is gone, whoever may remove the bytes
        empty_house.blobs.erase("ann")
    for command in (("verify", saved.checkpoint, "--base", str(base.path)), ("lineage", saved.checkpoint)):
        code, said = flywheel("checkpoint", *command, "--json")
        assert (code, '"outcome": "erased"' in said) == (1, True), said
    with client_of(empty_house) as client:
        assert client.get(f"/v1/checkpoints/{saved.checkpoint}/lineage").status_code == 410


def test_a_lineage_is_of_the_position_that_was_trained_on(empty_house: House) -> None:
    for run in siblings(MICRO, 0):
        play(empty_house.store, empty_house.blobs, run)
    rows = frozen(empty_house, GrpoQuery(reward="score"))
    facts = {"dataset": rows.dataset, "upto": rows.upto, "parent": None}
    saved = sample("CheckpointSaved", **facts)
    assert isinstance(saved, CheckpointSaved)
    empty_house.store.append([Append("training/t", (saved,), "test")])
    later = frozen(empty_house, GrpoQuery(reward="score", sweep="s"))
    assert (later.dataset, later.upto > rows.upto) == (rows.dataset, True)
    (step,) = lineage(empty_house, empty_house.views(), saved.checkpoint).lineage
    assert (step.dataset.upto, step.dataset.parse_query()) == (saved.upto, GrpoQuery(reward="score"))


def _trained_on(house: House, rows: DatasetState, name: str) -> str:
    """A checkpoint that the log says was trained on a dataset."""
    digest = hashlib.sha256(name.encode()).hexdigest()
    saved = sample(
        "CheckpointSaved", checkpoint=digest, training=name, dataset=rows.dataset, upto=rows.upto, parent=None
    )
    house.store.append([Append(f"training/{name}", (saved,), "test")])
    return digest


def test_a_run_that_gave_no_row_is_behind_no_checkpoint(empty_house: House) -> None:
    house, without_ids = empty_house, PolicyCall(ids=None)
    refused = PolicyRun("refused", 0, index=8, calls=(without_ids,))
    for run in (*siblings(MICRO, 500_000, 0), refused, PolicyRun("passed", MICRO, index=9, calls=(without_ids,))):
        play(house.store, house.blobs, run)
    queries = (GrpoQuery(reward="score"), DpoQuery(max_pairs=1), SftQuery(runs="policy"))
    rows: dict[str, DatasetState] = {query.kind: frozen(house, query) for query in queries}
    saved = {name: _trained_on(house, each, name) for name, each in rows.items()}
    holds = freeze.holding_over(house.store, house.views)

    def behind(run: str) -> set[str]:
        found = checkpoints_touched(house, house.views(), run)
        assert set(found.datasets) == {each.dataset for name, each in rows.items() if saved[name] in found.checkpoints}
        return {name for name, digest in saved.items() if digest in found.checkpoints}

    assert {run: behind(run) for run in ("r0", "r1", "r2")} == {
        "r0": {"grpo", "dpo", "sft"},
        "r1": {"grpo"},  # the pair that is widest is the only one
        "r2": {"grpo", "dpo"},
    }
    assert all(holds(rows[name], {run}) for name, run in (("dpo", "r1"), ("grpo", "refused"), ("sft", "passed")))
    assert (behind("refused"), behind("passed")) == (set(), set())


def test_once_bytes_are_erased_what_the_log_takes_is_behind_a_checkpoint(empty_house: House) -> None:
    house = empty_house
    for run in siblings(MICRO, 0):
        play(house.store, house.blobs, replace(run, subject="ann"))
    rows = frozen(house, GrpoQuery(reward="score"))
    saved = _trained_on(house, rows, "grpo")
    with suppress(BytesRemain):  # the key is gone, whoever may remove the bytes
        house.blobs.erase("ann")
    assert checkpoints_touched(house, house.views(), "r1").checkpoints == (saved,)


@pytest.fixture
def flywheel(
    house: House, empty_database: Database, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    """Run a command on the house's log: exit code, and what it said."""
    monkeypatch.setenv("FLYWHEEL_DATABASE_URL", empty_database.app_url)
    monkeypatch.setenv("FLYWHEEL_KEYS", str(empty_database.keys))
    monkeypatch.setenv("FLYWHEEL_MODELS", str(house.settings.model_folder))

    def run(*arguments: str) -> tuple[int, str]:
        code = run_command(list(arguments))
        printed = capsys.readouterr()
        return code, printed.out if code == 0 else " ".join((printed.out + printed.err).split())

    return run


def test_a_stage_over_the_command_line(
    house: House, base: Base, flywheel: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    rows = frozen(house, GrpoQuery(reward="score")).dataset
    config = tmp_path / "config.json"
    config.write_text('{"groups_per_step": 2, "learning_rate": "0.5"}')
    options = ("--base", str(base.path), "--config", str(config), "--steps", "2", "--learning-rate", "1e-3")
    code, said = flywheel("train", "grpo", "--dataset", rows[:8], *options, "--json")
    assert code == 0, said
    saved = json.loads(said)
    assert house.views().find(TRAININGS)[saved["training"]].stage_config() == GRPO
    digest = saved["checkpoint"]
    assert [row["checkpoint"] for row in json.loads(flywheel("checkpoint", "list", "--json")[1])] == [digest]
    assert json.loads(flywheel("checkpoint", "show", digest[:8], "--json")[1])["stage"]["status"] == "saved"
    assert "g1-s2" in flywheel("checkpoint", "lineage", digest)[1]
    back = json.loads(flywheel("checkpoint", "lineage", "--run", "g1-s2", "--json")[1])
    assert (back["datasets"], back["checkpoints"]) == ([rows], [digest])
    out = tmp_path / "peft"
    code, said = flywheel("checkpoint", "export", digest, str(out), "--base", str(base.path))
    assert (code, load_checkpoint(out).digest) == (0, digest), said
    assert flywheel("checkpoint", "export", digest, str(tmp_path / "x"))[0] == 1  # nobody said where its base is


def _with_another_manifest(house: House, saved: WeightsState) -> str:
    """The same checkpoint in the log once more, under a manifest that names another position of its dataset."""
    body = canonical({**json.loads(house.blobs.get(saved.manifest).body), "upto": 0})
    (manifest,) = house.blobs.put([Blob("application/json", body)])
    (event,) = (recorded.event for recorded in house.store.read(types=["CheckpointSaved"]))
    other = event.model_copy(update={"checkpoint": hashlib.sha256(body).hexdigest(), "manifest": manifest})
    assert isinstance(other, CheckpointSaved)
    house.store.append([Append(f"training/{saved.training}", (other,), "test")])
    return other.checkpoint


def test_a_checkpoint_that_training_again_does_not_give_is_different_and_says_in_what(
    house: House, base: Base, flywheel: Callable[..., tuple[int, str]]
) -> None:
    saved = train_stage(house, Stage(frozen(house, GrpoQuery(reward="score")), base, None, GRPO), quiet)
    other = _with_another_manifest(house, saved)
    code, said = flywheel("checkpoint", "verify", other, "--base", str(base.path))
    assert (code, f"different: training again gives {saved.checkpoint}; these differ: upto " in said) == (1, True), said
    code, said = flywheel("checkpoint", "verify", saved.checkpoint[:8], "--base", str(base.path))
    assert (code, said.strip()) == (0, f"equal: training again gives {saved.checkpoint}")


@pytest.mark.parametrize(
    ("kind", "options", "code", "words"),
    [
        ("grpo", ("--dataset", "0" * 64), 1, "No dataset"),
        ("grpo", ("--base", "nowhere"), 1, "nowhere"),
        ("grpo", ("--base", "0" * 64), 1, "No checkpoint"),
        ("grpo", ("--from", "0" * 64), 1, "No checkpoint"),
        ("grpo", ("--learning-rate", "fast"), 1, "wrong at learning_rate"),
        ("sft", (), 1, "has the kind grpo"),
        ("grpo", ("--config", "/dev/null"), 1, "not a JSON object"),
        ("ppo", (), 64, "ppo"),
    ],
)
def test_bad_input_is_named_and_nothing_is_registered(
    house: House,
    base: Base,
    flywheel: Callable[..., tuple[int, str]],
    kind: str,
    options: tuple[str, ...],
    code: int,
    words: str,
) -> None:
    rows = frozen(house, GrpoQuery(reward="score")).dataset
    given = {"--dataset": rows, "--base": str(base.path), "--steps": "1", "--learning-rate": "0.1"}
    given |= dict(zip(options[::2], options[1::2], strict=True))
    found, said = flywheel("train", kind, *(part for pair in given.items() for part in pair))
    assert (found, words in said) == (code, True), said
    assert kinds(house) == []
