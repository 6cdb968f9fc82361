"""Learning of a row: a sweep over all tasks, then trials for failed tasks, with the code of `flywheel run`."""

from __future__ import annotations

from dataclasses import dataclass

from agents.envs.clients.client import EnvClient
from agents.learning.memory import content_reader, load_piece
from agents.rollouts.sweep import SeedSweep
from agents.rollouts.trials import would_change
from api.course import Course
from api.house import House
from api.queries.benchmarks import benchmark_seeds
from api.queries.sweeps import sweeps_on
from api.reporter import Reporter
from api.sweeps.plan import plan, site_templates
from api.sweeps.play import play_sweep
from api.sweeps.seeds import fresh_seeds
from eventlog.disowned import read_in_force
from eventlog.events import Forgetting, PairedRule, SweepPlanned, Template, Trials
from projections.memories import candidacies, piece_kind
from projections.rewards import REWARDS

from .rows import RowPlan, Sizes

_EVERY_GROUP = Trials(treated_micro=1_000_000, withheld_micro=0)
_RNG_SEED = 11


@dataclass(frozen=True)
class Learner:
    """Learning of one row on one site, in a separate project."""

    house: House
    client: EnvClient
    site: str
    row: RowPlan
    sizes: Sizes
    reporter: Reporter

    @property
    def course(self) -> Course:
        """Course of the sweeps."""
        return Course(kinds=self.row.kinds, max_parallel=4)

    def learn(self) -> None:
        """Learn on training seeds only, without manual memory."""
        found = site_templates(self.client)
        for number in range(1, self.sizes.rounds + 1):
            self._sweep(f"found{number}", found, self.sizes.found_seeds, 2, None)
            for template, candidates in self._on_trial(found):
                groups = min(self.sizes.most_groups, self.sizes.groups_a_candidate * candidates)
                name = f"trial{number}-{template.template_id.partition('.')[2]}"
                self._sweep(name, (template,), groups, 1 + PairedRule.current().controls, _EVERY_GROUP)

    def _on_trial(self, found: tuple[Template, ...]) -> list[tuple[Template, int]]:
        """Failed tasks, each with the number of candidates of the row's kinds that fit its plan."""
        views, read, kinds = self.house.views(), content_reader(self.house.blobs), self.row.kinds
        states = [state for state in candidacies(views).values() if state.is_on_trial and piece_kind(state) in kinds]
        held = [piece for state in states if (piece := load_piece(state, read)) is not None]
        fitting = {each.template_id: sum(would_change(piece, each, self.site) for piece in held) for each in found}
        failed = self._failing()
        return [
            (each, fitting[each.template_id])
            for each in found
            if fitting[each.template_id] and each.template_id in failed
        ]

    def _failing(self) -> set[str]:
        """Tasks with a failed control run in the last sweep that played them."""
        views, last = self.house.views(), dict[str, SweepPlanned]()
        for recorded in read_in_force(self.house.store, types=["SweepPlanned"]):
            sweep = recorded.event
            if not isinstance(sweep, SweepPlanned) or sweep.environment != self.site:
                continue
            last |= {template.template_id: sweep for template in sweep.templates}
        failed = set()
        for name, sweep in last.items():
            rewards = views.find(REWARDS, f"{sweep.sweep}__")
            plain = [spec.spec_id for spec in sweep.specs if spec.template == name and spec.is_plain]
            if any(run in rewards and not rewards[run].passed for run in plain):
                failed.add(name)
        return failed

    def _sweep(self, name: str, found: tuple[Template, ...], seeds: int, siblings: int, trials: Trials | None) -> None:
        """Play a sweep; recovery and capture propose candidates only in sweeps without trials."""
        views = self.house.views()
        held = benchmark_seeds(views, self.site)
        drawn = fresh_seeds(sweeps_on(views, self.site), self.course, seeds, held)
        sweep = plan(
            self.house,
            views,
            self.site,
            SeedSweep(f"{self.site}-{name}", found, drawn, siblings),
            rng_seed=_RNG_SEED,
            trials=trials,
            learns=trials is None,
            forgetting=Forgetting() if self.row.is_allocated else None,
            kinds=self.row.kinds,
        )
        play_sweep(self.house, self.client, sweep, self.course, self.reporter)
