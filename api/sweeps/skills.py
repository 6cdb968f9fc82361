"""Propose skills that delegated runs of an ended sweep wrote and used, as pieces of memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from agents.learning.written_skills import WrittenSkill, capture_skills
from eventlog.errors import BlobErased
from eventlog.events import PieceKind, PromotionRule, SkillSaved, SweepPlanned, WorkerReturned
from projections.delegation.budgets import loop_stream
from projections.engine.views import Views
from projections.rewards import RewardState

from ..house import House
from ..queries.loops import newest_loop
from .capture import propose
from .lessons import plain_rewards


def skills_from(
    house: House, sweep: SweepPlanned, rule: PromotionRule, kinds: Collection[PieceKind], *, brings_back: bool = True
) -> None:
    """Append the skills of a sweep's passed runs as candidates under this rule, for clusters in which a run failed.

    Only plain runs count: no trials, contaminated or withdrawn runs, and none of a benchmark. Known skills are not
    proposed again; `brings_back` as in `capture_from`. Raises BlobMissing, BlobDamaged.
    """
    if "skill" not in kinds:
        return
    views = house.views()
    written = tuple(_skills_written(house, views, sweep, plain_rewards(views, sweep)))
    propose(house, views, sweep, capture_skills(sweep.environment, written), rule, kinds, brings_back=brings_back)


def _skills_written(
    house: House, views: Views, sweep: SweepPlanned, graded: Mapping[str, RewardState]
) -> Iterator[WrittenSkill]:
    clusters = {template.template_id: template.cluster for template in sweep.templates}
    cluster_of = {spec.spec_id: clusters[spec.template] for spec in sweep.specs if spec.spec_id in graded}
    failing = {cluster for run, cluster in cluster_of.items() if not graded[run].passed}
    for run, cluster in cluster_of.items():
        if graded[run].passed and cluster in failing:
            yield from _skills_of(house, views, run, cluster, graded[run])


def _skills_of(house: House, views: Views, run: str, cluster: str, reward: RewardState) -> Iterator[WrittenSkill]:
    """The skills that the loop of a run wrote and gave to a worker that returned. Erased ones are left out."""
    loop = newest_loop(views, run)
    if loop is None:
        return
    saved: dict[str, SkillSaved] = {}
    used: set[str] = set()
    for recorded in house.store.read(stream=loop_stream(loop), upto=views.upto):
        event = recorded.event
        if isinstance(event, SkillSaved):
            saved[event.skill] = event
        elif isinstance(event, WorkerReturned) and event.status == "ok":
            used |= {*event.skills}
    for name in sorted(saved.keys() & used):
        try:
            text = house.blobs.get(saved[name].content).body.decode()
        except BlobErased:
            continue
        score = reward.score if reward.value is None else reward.value
        yield WrittenSkill(run, cluster, score, name, saved[name].line, text)
