"""One MiniWoB++ task as an environment: the page is the site, its built-in grader is the oracle.

The page runs in our own browser, so an agent cannot reach the grader: it has only mouse and keyboard.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from decimal import ROUND_HALF_EVEN, Decimal
from hashlib import sha256
from typing import Final

from ..contract import MICRO, Graded, Health, Instance, InstanceState, Mutation
from ..environment import Connected, instance_id
from ..errors import ContractBroken, TaskNotGraded
from ..unclosed_instances import count_unclosed
from . import scripts
from .tabs import Tab, Tabs
from .tasks import Task, task_named

NOT_DONE: Final = "the task was not done"
LEFT: Final = "the page of the task was left"
WRONG: Final = "the task ended without a positive reward"


class MiniWob(Connected):
    """The environment `miniwob.<task>`; threads may share it. It has no noise, so `repeat` changes nothing.

    Every method raises EnvironmentDown if Chromium or the page died; those that take an instance also InstanceClosed,
    and `oracle` TaskNotGraded. None of these errors says anything about an agent. Raises UnknownPage.
    """

    def __init__(self, task: str, tabs: Tabs) -> None:
        self.task: Task = task_named(task)
        self.admin_url: str = tabs.origin
        self.page_headers: Mapping[str, str] = {}
        self.has_record = True
        self._tabs = tabs
        self._minted: set[str] = set()

    @property
    def name(self) -> str:
        """Name of the environment in events."""
        return self.task.task_id

    def disconnect(self) -> None:
        """Close all open instances; only this client can reach them."""
        for instance in self._minted:
            with count_unclosed(instance):
                self._tabs.close(instance)
        self._minted.clear()

    def health(self) -> Health:
        """Health: the only task, and the number of open instances."""
        return Health(site=self.name, instances=len(self._minted), tasks=(self.task.task_text(),))

    def reset(self, seed: int, *, instance: Instance | str | None = None, repeat: int = 0) -> Instance:  # noqa: ARG002
        """Make an instance from a seed, or restart the given one under its id and address."""
        if instance is not None:
            self._tab(instance)
        name = secrets.token_hex(16) if instance is None else instance_id(instance)
        answer = Instance(seed=seed, instance=name, url=self._tabs.open(name, self.task.name, seed).url)
        self._minted.add(name)
        return answer

    def oracle(self, instance: Instance | str, task_id: str) -> Graded:
        """First result of the page's grader: passed means a raw reward of 1; time plays no part."""
        tab = self._tab(instance)
        if task_id != self.task.task_id:
            raise TaskNotGraded(url=self.admin_url, actual=task_id, expected=self.task.task_id)
        found = tab.read(scripts.RESULT)
        if isinstance(found["raw"], bool) or not isinstance(found["raw"], int | float):
            raise ContractBroken(url=tab.url, operation="oracle", actual=found["raw"], expected="a raw reward")
        raw = int((Decimal(repr(found["raw"])) * MICRO).to_integral_value(rounding=ROUND_HALF_EVEN))
        passed = found["done"] and raw == MICRO
        reasons = () if passed else (WRONG if found["done"] else NOT_DONE if found["begun"] else LEFT,)
        return Graded(
            task_id=task_id,
            passed=passed,
            score_micro=min(max(raw, 0), MICRO) if found["done"] else 0,
            reasons=reasons,
            diff={"raw_reward_micro": raw},
        )

    def mutations(self, instance: Instance | str, since_id: int = 0) -> tuple[Mutation, ...]:
        """Changes caused by mouse and keyboard: clicks, changes, submits. `at` counts them."""
        return tuple(mutation for mutation in _mutations(self._tab(instance)) if mutation.id > since_id)

    def state(self, instance: Instance | str) -> InstanceState:
        """State with a digest of the current page and of the mutations without their times."""
        tab = self._tab(instance)
        stands = tab.read(scripts.STANDS)
        done = [mutation.model_dump(mode="json", exclude={"at"}) for mutation in _mutations(tab)]
        told = json.dumps([self.name, stands["page"], done], ensure_ascii=False, sort_keys=True).encode(
            "utf-8", "replace"
        )
        return InstanceState(
            seed=tab.seed,
            counts={"elements": stands["elements"], "mutations": len(done)},
            fingerprint=f"sha256:{sha256(told).hexdigest()}",
        )

    def close(self, instance: Instance | str) -> None:
        """Close an instance; its page is gone afterwards."""
        self._tab(instance)
        self._minted.discard(instance_id(instance))
        self._tabs.close(instance_id(instance))

    def _tab(self, instance: Instance | str) -> Tab:
        return self._tabs.tab(instance_id(instance))


def _mutations(tab: Tab) -> tuple[Mutation, ...]:
    taken = tab.read(scripts.TAKEN)
    return tuple(Mutation.model_validate({**each, "id": place, "at": place}) for place, each in enumerate(taken, 1))
