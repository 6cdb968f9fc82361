"""Training stages: build rows from the log, train in a process, record the checkpoint in the log.

A stage is identified by its inputs and produces one checkpoint. A killed stage starts over and gives the same one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, Literal

from eventlog.blobs import Blob
from eventlog.errors import BaseDiffers
from eventlog.events import (
    AnyEvent,
    CheckpointFile,
    CheckpointSaved,
    Metrics,
    StageConfig,
    TrainingFailed,
    TrainingProgressed,
    TrainingStarted,
    WarmupConfig,
)
from eventlog.store import Append, EventStore, KeyReused, Position
from eventlog.weights_folder import MANIFEST, Base
from projections.checkpoints import WEIGHTS, WeightsState
from projections.engine.views import Views
from projections.frozen_datasets import DatasetState
from projections.taint import withdrawals
from projections.trainings import TRAININGS, TrainingState, training_name
from trainer.request import DatasetRef, ParentRef, TrainingRequest, WarmupRequest
from trainer.scratch_folder import scratch_folder

from ..datasets import freeze
from ..errors import DatasetWithdrawn
from ..house import House
from ..locks import training_alone
from ..reporter import Advance
from .errors import OtherKind, TrainedTwice, TrainingEnded
from .stage_process import PROCESS_ENDED, Line, trainer_lines
from .weights import folder_of

MOST_RECORDED: Final = 50
"""Maximum number of steps of a stage that are recorded, including the last one."""
ACTOR: Final = "trainer"
_SOURCE: Final = "warmup.json"
_LONGEST: Final = 2000
_PLACES: Final = 9
_MEDIA: Final = {".json": "application/json", ".png": "image/png", ".jsonl": "application/x-ndjson"}

Watch = Callable[[Line], object]
"""Callback for every output line of a stage."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One training stage: dataset, base model, parent checkpoint (None: a fresh adapter), and configuration."""

    dataset: DatasetState
    base: Base
    parent: WeightsState | None
    config: StageConfig

    @property
    def name(self) -> str:
        """The stage's name: the same for the same rows, base, parent and configuration."""
        parent = None if self.parent is None else self.parent.checkpoint
        return training_name(self.dataset.dataset, self.base.digest, parent, self.config)


@dataclass(frozen=True, slots=True)
class StageOutput:
    """Output of a training process: the digest of its weights and their folder."""

    digest: str
    folder: Path


def train_stage(house: House, stage: Stage, watch: Watch, actor: str = ACTOR) -> WeightsState:
    """Train a stage and return its checkpoint; a stage that has a checkpoint is not trained again.

    Raises OtherKind, BaseDiffers, DatasetWithdrawn, DatasetErased, DatasetDiffers, TrainedTwice, and TrainingEnded for
    errors of the training process. Nothing is recorded before the first step.
    """
    refuse_unfit_stage(stage)
    with training_alone(house.engine, stage.name):
        before = house.views().get(TRAININGS, stage.name)
        if before is None or before.checkpoint is None:
            refuse_withdrawn(house.store, house.views, stage.dataset)
            _train(house, stage, before, watch, actor)
        views = house.views()
        saved = views.get(TRAININGS, stage.name)
        return views.find(WEIGHTS)[str(saved.checkpoint if saved else None)]


def refuse_unfit_stage(stage: Stage) -> None:
    """Raise OtherKind if the dataset is for another algorithm, BaseDiffers if the parent is on another base."""
    algorithm, kind = stage.config.algorithm, stage.dataset.parse_query().kind
    expected = "sft" if algorithm == "warmup" else algorithm
    if kind != expected:
        raise OtherKind(dataset=stage.dataset.dataset, actual=kind, algorithm=algorithm, expected=expected)
    if stage.parent is not None and stage.parent.base != stage.base.digest:
        raise BaseDiffers(path=stage.base.path, actual=stage.base.digest, expected=stage.parent.base)


def refuse_withdrawn(store: EventStore, views_at: freeze.ViewsAt, dataset: DatasetState) -> None:
    """Raise DatasetWithdrawn if a dataset holds runs that were withdrawn since it was frozen."""
    since = {run for run, state in withdrawals(views_at(None)).items() if state.since > dataset.upto}
    if since and freeze.holding_over(store, views_at)(dataset, since):
        raise DatasetWithdrawn(actual=dataset.dataset, upto=dataset.upto)


def _train(house: House, stage: Stage, before: TrainingState | None, watch: Watch, actor: str) -> None:
    attempt = 1 + (0 if before is None else before.attempts)
    upto = stage.dataset.upto if before is None else before.upto
    recorder = _Recorder(house, stage, attempt, upto, actor)

    def each(line: Line) -> None:
        recorder.see(line)
        watch(line)

    try:
        with working_folder(house, stage, "training") as folder:
            saved = recorder.keep_files(produce(house, stage, upto, folder, each))
    except TrainingEnded as error:
        recorder.record_failure(str(error.facts["error"]), str(error.facts["actual"]))
        raise
    recorder.record_checkpoint(saved)


def working_folder(house: House, stage: Stage, doing: Literal["training", "verifying"]) -> AbstractContextManager[Path]:
    """An empty folder for this stage, without leftovers of killed attempts. Another process that wants it waits.

    So an attempt that lost its lock in the database keeps its files to itself.
    """
    return scratch_folder(house.settings.model_folder.resolve(), f"{doing}-{house.settings.project}-{stage.name}")


def produce(house: House, stage: Stage, upto: int, folder: Path, each: Watch) -> StageOutput:
    """Build the rows and train on them in a separate process, inside `folder`; records nothing.

    Raises TrainingEnded, and as `make_rows`.
    """
    rows = folder / "rows.parquet"
    views, query = house.views(Position(stage.dataset.upto)), stage.dataset.parse_query()
    freeze.again(stage.dataset, lambda: freeze.write_dataset(house.store, house.blobs, views, query, rows))
    file = folder / "request.json"
    file.write_text(_request(house, stage, upto, rows, folder / "out").model_dump_json(), encoding="utf-8")
    with closing(trainer_lines(file)) as lines:
        for line in lines:
            each(line)
            if line["kind"] == "failed":
                raise TrainingEnded(training=stage.name, error=line["error"], actual=line["message"])
            if line["kind"] == "saved":
                return StageOutput(str(line.get("checkpoint") or line["base"]), Path(str(line["path"])))
    raise TrainingEnded(training=stage.name, error=PROCESS_ENDED, actual="it wrote no last line; check its memory use")


def _request(house: House, stage: Stage, upto: int, rows: Path, out: Path) -> TrainingRequest | WarmupRequest:
    parent = stage.parent
    dataset = DatasetRef(path=str(rows), digest=stage.dataset.dataset, upto=upto)
    base, expected = str(stage.base.path.resolve()), stage.base.digest
    if isinstance(stage.config, WarmupConfig):
        return WarmupRequest(dataset=dataset, base=base, base_digest=expected, out=str(out), config=stage.config)
    goes_on = None
    if parent is not None:
        path = folder_of(house, parent.checkpoint).resolve()
        goes_on = ParentRef(path=str(path), digest=parent.checkpoint)
    return TrainingRequest(
        dataset=dataset, base=base, base_digest=expected, parent=goes_on, out=str(out), config=stage.config
    )


@dataclass
class _Recorder:
    """Appends the events of a stage. A stage that fails before its first step records nothing.

    Raises TrainedTwice if another attempt, started after this one lost its lock, has recorded something different.
    """

    house: House
    stage: Stage
    attempt: int
    upto: int
    actor: str
    is_started: bool = False

    def see(self, line: Line) -> None:
        """Record a line if its kind is kept."""
        match line["kind"]:
            case "started":
                self._start()
            case "step":
                step, of = int(line["step"]), self.stage.config.steps
                if step * MOST_RECORDED // of > (step - 1) * MOST_RECORDED // of:
                    event = TrainingProgressed(training=self.stage.name, step=step, of=of, metrics=metrics_of(line))
                    self._append(self._stream, event, f"progress:{self.stage.name}:{self.attempt}:{step}")

    def record_failure(self, error: str, message: str) -> None:
        """Record that the stage ended without a checkpoint, if it had started."""
        if self.is_started:
            event = TrainingFailed(training=self.stage.name, error=error, message=message[:_LONGEST])
            self._append(self._stream, event, f"failed:{self.stage.name}:{self.attempt}")

    def keep_files(self, trained: StageOutput) -> CheckpointSaved:
        """Store the files of a checkpoint as blobs and return the event to record."""
        stage = self.stage
        files = tuple(
            self._keep_file(file) for file in sorted(trained.folder.iterdir()) if not file.name.startswith(".")
        )
        manifest = _SOURCE if stage.config.algorithm == "warmup" else MANIFEST
        return CheckpointSaved(
            checkpoint=trained.digest,
            training=stage.name,
            algorithm=stage.config.algorithm,
            base=stage.base.digest,
            parent=None if stage.parent is None else stage.parent.checkpoint,
            dataset=stage.dataset.dataset,
            upto=self.upto,
            manifest=next(file.blob for file in files if file.name == manifest),
            files=files,
        )

    def record_checkpoint(self, event: CheckpointSaved) -> None:
        """Record a checkpoint whose files are stored."""
        self._append(f"checkpoint/{event.checkpoint}", event, f"checkpoint:{self.stage.name}")

    def _keep_file(self, file: Path) -> CheckpointFile:
        blob = Blob(_MEDIA.get(file.suffix, "application/octet-stream"), file.read_bytes())
        (address,) = self.house.blobs.put([blob])
        return CheckpointFile(name=file.name, blob=address)

    def _start(self) -> None:
        stage = self.stage
        event = TrainingStarted(
            training=stage.name,
            attempt=self.attempt,
            dataset=stage.dataset.dataset,
            upto=self.upto,
            base=stage.base.digest,
            parent=None if stage.parent is None else stage.parent.checkpoint,
            config=stage.config,
        )
        self._append(self._stream, event, f"training:{stage.name}:{self.attempt}")
        self.is_started = True

    @property
    def _stream(self) -> str:
        return f"training/{self.stage.name}"

    def _append(self, stream: str, event: AnyEvent, key: str) -> None:
        (outcome,) = self.house.store.append([Append(stream, (event,), self.actor, key=key)])
        if isinstance(outcome, KeyReused):
            raise TrainedTwice(training=self.stage.name, actual=key, position=outcome.first)


def watch_progress(advance: Advance, say: Callable[[str], None]) -> Watch:
    """A watch that advances a progress bar with the metrics of each step, and prints statistics of the rows."""

    def watch(line: Line) -> None:
        if line["kind"] == "step":
            advance(note=_in_words(metrics_of(line).model_dump()))
        elif line["kind"] in {"groups", "staleness", "memory"}:
            told = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in line.items() if name != "kind")
            say(f"{line['kind']}: {told}")

    return watch


def metrics_of(line: Mapping[str, Any]) -> Metrics:
    """Metrics of a step, as decimal strings of nine places."""
    names = ("loss", "kl", "clip_fraction", "ratio", "reward")
    return Metrics(**{name: _decimal(line.get(name)) for name in names})


def describe_measures(views: Views, saved: WeightsState) -> str:
    """Metrics of the last training step of a checkpoint, as text."""
    state = views.get(TRAININGS, saved.training)
    return "" if state is None else _in_words(state.metrics)


def _in_words(metrics: Mapping[str, str | None]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value[:8]}" for name, value in metrics.items() if value is not None)


def _decimal(value: float | None) -> str | None:
    if value is None or not Decimal(repr(value)).is_finite():
        return None
    text = format(Decimal(repr(value)), f".{_PLACES}f").rstrip("0").rstrip(".")
    return "0" if text == "-0" else text
