"""Episodes as an Environment: instances by seed, a record of every action, its own reward as oracle."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from threading import Lock
from typing import Final

from ..contract import MICRO, Graded, Health, Instance, InstanceState, Mutation, TaskText
from ..environment import Connected, instance_id
from ..errors import InstanceClosed, TaskNotGraded
from ..unclosed_instances import count_unclosed
from .episode import Episode, EpisodeKind, Turn

BELOW: Final = "the reward is below the threshold"
UNTOUCHED: Final = "nothing was done"


@dataclass(slots=True)
class _Open:
    """An open instance: its episode, and what was done in it."""

    seed: int
    episode: Episode
    seen: str
    taken: list[Mutation] = field(default_factory=list)
    is_over: bool = False
    reward_micro: int = 0
    lock: Lock = field(default_factory=Lock)


class EpisodeEnvironment(Connected):
    """Environment of one kind of episode, which is also its only task. Threads may share it.

    Instances have no address: an executor acts through `act`. There is no noise, so `repeat` changes nothing. Methods
    that take an instance raise InstanceClosed; all raise EnvironmentFailure if the episode's source fails.
    """

    def __init__(self, kind: EpisodeKind) -> None:
        self.kind = kind
        self.admin_url: str = kind.address or kind.name
        self.page_headers: Mapping[str, str] = {}
        self.has_record = True
        self._open: dict[str, _Open] = {}
        self._guard = Lock()

    @property
    def name(self) -> str:
        """Name of the environment in events."""
        return self.kind.name

    def disconnect(self) -> None:
        """Close all open instances."""
        while self._open:
            name, held = self._open.popitem()
            with count_unclosed(name):
                held.episode.close()

    def health(self) -> Health:
        """Health: the only task, and the number of open instances."""
        task = TaskText(task_id=self.name, instruction=self.kind.instruction, cluster=self.kind.cluster)
        return Health(site=self.name, instances=len(self._open), tasks=(task,))

    def reset(self, seed: int, *, instance: Instance | str | None = None, repeat: int = 0) -> Instance:
        """Start an episode from a seed, or start the given instance's anew."""
        if instance is not None:
            self._of(instance)
        name = secrets.token_hex(16) if instance is None else instance_id(instance)
        episode = self.kind.start(seed)
        with self._guard:
            before = self._open.get(name)
            self._open[name] = _Open(seed, episode, episode.observation)
        if before is not None:
            before.episode.close()
        return Instance(seed=seed, repeat=repeat, instance=name)

    def observe(self, instance: Instance | str) -> str:
        """The observation of an instance now."""
        return self._of(instance).seen

    def act(self, instance: Instance | str, action: str, argument: str | None) -> Turn:
        """Take an action; it is recorded as a mutation. After the end nothing changes. Raises UnfitArgument."""
        held = self._of(instance)
        with held.lock:
            if held.is_over:
                return Turn(held.seen, 0, is_over=True)
            turn = held.episode.act(action, argument)
            place = len(held.taken) + 1
            held.taken.append(
                Mutation(
                    id=place,
                    operation=action,
                    target_type="episode",
                    target_id=self.name,
                    payload={"argument": argument, "reward_micro": turn.reward_micro},
                    at=place,
                )
            )
            held.seen, held.is_over = turn.observation, turn.is_over
            held.reward_micro += turn.reward_micro
        return turn

    def episode_of(self, instance: Instance | str) -> Episode:
        """The episode of an instance, for probes; agents act through `act`."""
        return self._of(instance).episode

    def oracle(self, instance: Instance | str, task_id: str) -> Graded:
        """The sum of the instance's own rewards as a score, at least 0 and at most 1, against the kind's threshold."""
        held = self._of(instance)
        if task_id != self.name:
            raise TaskNotGraded(url=self.admin_url, actual=task_id, expected=self.name)
        score = min(max(held.reward_micro, 0), MICRO)
        passed = bool(held.taken) and score >= self.kind.threshold_micro
        reasons = () if passed else (BELOW if held.taken else UNTOUCHED,)
        diff = {"reward_micro": held.reward_micro, "is_over": held.is_over}
        return Graded(task_id=task_id, passed=passed, score_micro=score, reasons=reasons, diff=diff)

    def mutations(self, instance: Instance | str, since_id: int = 0) -> tuple[Mutation, ...]:
        """The actions of an instance with their arguments and rewards, oldest first."""
        return tuple(self._of(instance).taken[since_id:])

    def state(self, instance: Instance | str) -> InstanceState:
        """State with a digest of what is seen and of what was done. The seed is no part of it: it must show itself."""
        held = self._of(instance)
        done = [[each.operation, dict(each.payload)] for each in held.taken]
        told = json.dumps([self.name, held.seen, done], ensure_ascii=False, sort_keys=True).encode("utf-8", "replace")
        return InstanceState(
            seed=held.seed, counts={"actions": len(done)}, fingerprint=f"sha256:{sha256(told).hexdigest()}"
        )

    def close(self, instance: Instance | str) -> None:
        """Close an instance; its episode is gone afterwards."""
        self._of(instance)
        with self._guard:
            held = self._open.pop(instance_id(instance), None)
        if held is not None:
            held.episode.close()

    def _of(self, instance: Instance | str) -> _Open:
        held = self._open.get(instance_id(instance))
        if held is None:
            raise InstanceClosed(url=self.admin_url, actual=instance_id(instance))
        return held
