"""Reward of a listings task without an oracle: conduct while acting, and a gate on the final summary. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from .signals import Action, EpisodeState, GymResult, RewardSignal, RunResult

GATE: Final = 1_000_000
"""Full reward of the gate, in micro-reward."""


@dataclass(frozen=True, kw_only=True)
class ListingReward:
    """Step: `format`, `off_site`, `loop`, `url_progress`. End: the done-summary gate, `gate_done` and `gate_fields`.

    It rests on what the agent does and claims, so it is a proxy: it may shape rewards but never decides. Good format
    earns nothing, and new pages earn only a limited number of times, so a longer run does not earn more.
    `hosts` are the hosts where the agent may act, any host if empty. Amounts are micro-reward.
    """

    required_fields: tuple[str, ...] = ("make", "price", "url")
    hosts: frozenset[str] = frozenset()
    malformed: int = -100_000
    off_site: int = -500_000
    loop: int = -200_000
    loop_window: int = 3
    new_page: int = 50_000
    most_new_pages: int = 5

    def step(self, action: Action, gym_result: GymResult, state: EpisodeState) -> RewardSignal:
        """Reward of a step. `state` is the run before the step."""
        info = gym_result.info
        url = info.get("url")
        components = {"format": self.malformed} if info.get("is_malformed", False) else {}
        if url is not None and self.hosts and urlsplit(url).hostname not in self.hosts:
            components["off_site"] = self.off_site
        elif url is not None and url not in state.urls and len(set(state.urls)) < self.most_new_pages:
            components["url_progress"] = self.new_page
        if _is_loop((*state.actions, action), self.loop_window):
            components["loop"] = self.loop
        return RewardSignal(components)

    def episode(self, run_result: RunResult, state: EpisodeState, ground_truth: object = None) -> RewardSignal | None:
        """Reward of the end of a run: half for being done, half for the share of required fields in its summary.

        `state` and `ground_truth` are for subclasses. None, which only subclasses return, means no reward, not zero.
        """
        del state, ground_truth
        if not run_result.is_done:
            return RewardSignal({"gate_done": 0, "gate_fields": 0})
        told = sum(bool(run_result.summary.get(name, "").strip()) for name in self.required_fields)
        fields = GATE // 2 * told // len(self.required_fields) if self.required_fields else GATE // 2
        return RewardSignal({"gate_done": GATE // 2, "gate_fields": fields})


def _is_loop(actions: Sequence[Action], window: int) -> bool:
    return len(actions) >= window and len(set(actions[-window:])) == 1
