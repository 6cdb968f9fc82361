"""The arms of one training seed: SFT on the base's own passed runs, the loop, and a control matched to the loop.

A later step is named by what it follows, and everything is found again in the log, so a killed call is resumed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from agents.executors.by_weights import ByWeights
from agents.executors.executor import Executor
from agents.models.local.host import Host
from agents.models.local.network import BASE
from agents.models.model import Model
from api.cli.output import TerminalReporter
from api.datasets.demonstrations import keep_tokens
from api.errors import EmptyDataset
from api.training.stages import Stage as Training
from api.training.stages import train_stage, watch_progress
from api.training.weights import folders_of
from eventlog.events import GrpoQuery, Query, SftQuery
from projections.checkpoints import WeightsState
from projections.frozen_datasets import DatasetState
from trainer.request import Config

from .stage import ACTOR, Outcomes, Stage, success
from .subject import HeldOut, Instances

LOOP: Final = "loop"
CONTROL: Final = "control"
SFT: Final = "sft"
ARMS: Final = (SFT, CONTROL, LOOP)


@dataclass(frozen=True, slots=True)
class Spent:
    """What an arm took after its SFT: runs in the environment, steps, and tokens that went through training."""

    runs: int
    steps: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Arm:
    """The weights of an arm at one training seed, and what they took."""

    name: str
    training_seed: int
    state: WeightsState
    spent: Spent


@dataclass(frozen=True)
class Workshop:
    """What the arms are made with: the stage, the base in this process, and the base that decodes under a schema.

    Without the last one there is no arm but the loop.
    """

    stage: Stage
    host: Host
    constrained: Model | None = None

    def executor(self, task: str, weights: str) -> ByWeights:
        """Executor of the base or of a checkpoint on a task."""
        house = self.stage.house
        model = self.host.base() if weights == BASE else self.host.adapted_model(weights, folders_of(house))
        return ByWeights({weights: self.stage.policy(task, model)})

    def held_out(self, name: str, weights: str = BASE, model: Model | None = None) -> Mapping[str, Outcomes]:
        """Outcomes on held-out instances by column, greedily; `model` plays under the schema. Raises Paused."""
        subject = self.stage.subject
        found: dict[HeldOut, Outcomes] = {}
        for number, each in enumerate(subject.held_out):
            constrained = None if model is None else self.stage.policy(each.task, model, subject.schema)
            plays = constrained or self.executor(each.task, weights)
            found[each] = self.stage.play(f"held-{name}-{number}", each.task, plays, each.seeds, weights=weights)
        return {column: merged(found[each] for each in parts) for column, parts in subject.columns.items()}

    def sft(self, seed: int) -> Arm:
        """SFT on runs of the base under the schema that passed. Raises EmptyDataset, Paused."""
        stage, effort, asked = self.stage, self.stage.effort, self.stage.subject.asked(seed, 0)
        constrained = self.constrained
        if constrained is None:
            raise ValueError("nothing decodes under a schema here; expected a model that does")
        names, outcomes = self._sampled(
            f"asked-{seed}", asked, lambda task: stage.policy(task, constrained, stage.subject.schema)
        )
        TerminalReporter().say(f"training seed {seed}: the base under a schema passes {success(outcomes):.2f}")
        query = SftQuery(runs="policy", sweep=names, tokens=keep_tokens(stage.house.blobs, self.host.folder.path))
        config = effort.sft.model_copy(update={"seed": seed})
        state, tokens = self._train(query, f"sft {seed}", config, None, config.rows_per_step)
        return Arm(SFT, seed, state, Spent(_count(asked), config.steps, tokens))

    def loop(self, seed: int, state: WeightsState | None) -> Arm:
        """Rounds of own runs and GRPO on them, from a checkpoint (None: the base).

        Raises Paused, and ValueError if no round taught the base anything.
        """
        effort = self.stage.effort
        runs = steps = tokens = 0
        for turn in range(1, effort.rounds + 1):
            name = f"loop-{seed}-{turn}"
            asked = self.stage.subject.asked(seed, turn)
            names, outcomes = self._siblings(name, asked, state)
            runs += _count(asked) * effort.siblings
            TerminalReporter().say(f"training seed {seed}, round {turn}: {success(outcomes):.2f} of its runs pass")
            config = effort.grpo.model_copy(update={"seed": seed * 100 + turn})
            rows = config.groups_per_step * effort.siblings
            try:
                state, more = self._train(GrpoQuery(reward="score", sweep=names), name, config, state, rows)
            except EmptyDataset as error:
                TerminalReporter().say(f"{name}: {error}; its weights stay as they are")
                continue
            steps, tokens = steps + config.steps, tokens + more
        if state is None:
            raise ValueError("in no round did two samples of a question differ; expected more questions or samples")
        return Arm(LOOP, seed, state, Spent(runs, steps, tokens))

    def control(self, start: Arm, loop: Arm) -> Arm:
        """SFT on passed runs, from the same SFT: as many runs on the same questions, and as many tokens, as the loop.

        Raises Paused.
        """
        effort, seed = self.stage.effort, start.training_seed
        names: list[str] = []
        for turn in range(1, effort.rounds + 1):
            names += self._siblings(f"control-{seed}-{turn}", self.stage.subject.asked(seed, turn), start.state)[0]
        query = SftQuery(runs="policy", sweep=tuple(sorted(names)))
        try:
            dataset = self.stage.frozen(query, f"control {seed}")
        except EmptyDataset as error:
            TerminalReporter().say(f"control {seed}: {error}; its weights stay as they are")
            return Arm(CONTROL, seed, start.state, Spent(loop.spent.runs, 0, 0))
        a_step = self.stage.tokens_a_row(dataset) * effort.sft.rows_per_step
        steps = max(1, round(loop.spent.tokens / a_step))
        config = effort.sft.model_copy(update={"seed": seed, "steps": steps})
        state = self._trained(dataset, f"control {seed}", config, start.state)
        return Arm(CONTROL, seed, state, Spent(loop.spent.runs, steps, round(a_step * steps)))

    def _siblings(self, name: str, asked: Instances, state: WeightsState | None) -> tuple[tuple[str, ...], Outcomes]:
        """Play groups of siblings with a checkpoint (None: the base), at temperature 1. Raises Paused."""
        weights, siblings = BASE if state is None else state.checkpoint, self.stage.effort.siblings
        return self._sampled(name, asked, lambda task: self.executor(task, weights), weights, siblings)

    def _sampled(
        self,
        name: str,
        asked: Instances,
        executor_of: Callable[[str], Executor],
        weights: str = BASE,
        siblings: int = 1,
    ) -> tuple[tuple[str, ...], Outcomes]:
        """Play instances at temperature 1, a sweep for each task: the sweeps' names in order, and the outcomes of all.

        Raises Paused.
        """
        found: dict[str, Outcomes] = {}
        for task, seeds in asked.items():
            own = sweep_name(name, task, asked)
            found[own] = self.stage.play(
                own, task, executor_of(task), seeds, weights=weights, siblings=siblings, temperature=1.0
            )
        return tuple(sorted(found)), merged(found.values())

    def _train(
        self, query: Query, title: str, config: Config, parent: WeightsState | None, rows: int
    ) -> tuple[WeightsState, int]:
        """Train on the rows of a query; also the tokens of all steps of so many rows, or of all if there are fewer.

        Raises EmptyDataset, Paused.
        """
        dataset = self.stage.frozen(query, title)
        tokens = round(self.stage.tokens_a_row(dataset) * min(rows, dataset.rows) * config.steps)
        return self._trained(dataset, title, config, parent), tokens

    def _trained(self, dataset: DatasetState, title: str, config: Config, parent: WeightsState | None) -> WeightsState:
        self.stage.pause_if_late()
        reporter = TerminalReporter()
        with reporter.phase(f"training {title}", config.steps) as advance:
            watch = watch_progress(advance, reporter.say)
            return train_stage(self.stage.house, Training(dataset, self.host.folder, parent, config), watch, ACTOR)


def sweep_name(name: str, task: str, asked: Instances) -> str:
    """Name of the sweep of one of the tasks that are asked. Pure."""
    return name if len(asked) == 1 else f"{name}-{task.rpartition('.')[2]}"


def merged(parts: Iterable[Outcomes]) -> Outcomes:
    """Outcomes of several tasks, whose instances have different seeds. Pure."""
    return {seed: outcome for part in parts for seed, outcome in part.items()}


def _count(asked: Instances) -> int:
    return sum(len(seeds) for seeds in asked.values())
