"""The slow loop on a real site and PostgreSQL, with real training, killed again and again.

The policies are scripted, one for each weights: the base gives up in most runs, a checkpoint finds the phone number.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from agents.envs.clients.client import EnvClient
from agents.envs.provider import local_site
from agents.executors.by_weights import ByWeights
from agents.executors.errors import NotServed
from agents.executors.executor import Executor
from agents.executors.policy import PolicyExecutor
from agents.models.model import Completion, CompletionRequest, Offers, Served
from agents.models.scripted import Scripted
from agents.suites.bundled import bundled_for
from agents.suites.in_log import VersionedSuite
from api.cli.main import run_command
from api.controllers.slow import SlowController
from api.controllers.slow_next import SlowCourse
from api.course import SLOW_CONTROLLER, Course
from api.errors import OtherTasks
from api.evaluations.benchmarks import without_plans
from api.history.withdraw import withdraw_runs
from api.house import House
from api.queries.champion import present_champion
from api.queries.courses import present_course
from api.queries.facts import require
from api.queries.sweeps import planned_by
from api.reporter import Advance
from api.training.errors import NoBase
from eventlog.events import Rules, RunFinished, RunStarted, SeedSpan, SftConfig, SuiteSeeds
from eventlog.weights_folder import Base
from gate.benchmark import freeze_benchmark
from gate.errors import NoFreshSeeds
from gate.promote import freeze_into
from projections.benchmarks import BENCHMARKS
from projections.checkpoints import WEIGHTS
from projections.engine.compare import compare
from projections.runs import RUNS
from projections.verdicts import VERDICTS
from tests.admitted import admitted
from tests.conftest import Database
from tests.learned import with_models
from tests.recomputing import every_verdict_recomputes
from tests.sites import SharedSite
from tests.tiny import make_base

from .test_policy_rollouts import PHONE
from .test_rollout_commands import Refusing

pytestmark = [
    pytest.mark.timeout(300),  # the first to run imports what training needs
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.usefixtures("stages_here"),
]

WANTED = {"Make": "Sea Ray", "State": "Florida", "Seller": "Private owner", "Sort by": "Price: low to high"}
HELD = re.compile(r'^\[(?:choice|field)\] ([^:]+): "([^"]*)"', re.MULTILINE)
COURSE = SlowCourse(
    stages=(SftConfig(steps=1, learning_rate="0.001"),),
    max_rounds=1,
    sizes=Course(
        seeds_per_round=4,
        siblings=2,
        visible_seeds=(9_000,),
        sealed_seeds=tuple(range(10_000, 10_024)),
        max_parallel=2,
        rules=Rules(min_pairs=10),
    ),
    tasks=("marketplace.phone_reveal",),
)


class Killed(Exception):
    """The process is gone."""


@dataclass
class Dying:
    """A Reporter whose process dies at a word, `left` words from now."""

    left: int
    said: list[str] = field(default_factory=list)
    noted: list[str] = field(default_factory=list)

    def phase(self, title: str, total: int) -> AbstractContextManager[Advance]:
        self.say(title)
        return nullcontext(self.note)

    def note(self, *, note: str = "") -> None:
        self.noted.append(note)

    def say(self, text: str) -> None:
        self.said.append(text)
        self.left -= not text.startswith("memory: ")  # said after the event that each new attempt appends
        if self.left < 0:
            raise Killed


@dataclass
class DyingAfter(Dying):
    """One whose process dies once these words were said."""

    words: str = ""

    def say(self, text: str) -> None:
        self.said.append(text)
        if self.words in text:
            raise Killed


def action(name: str, target: str = "", value: str = "") -> str:
    return json.dumps({"why": "the rule says so", "action": name, "target": target, "value": value})


def finds_the_number(request: CompletionRequest) -> str:
    """The next action of a policy that finds the phone number."""
    told = [message.text for message in request.messages if message.role == "user"]
    led = [place for place, text in enumerate(told) if "\npage /" in text]
    if not led:
        return action("navigate", "/")
    page, since = told[led[-1]], "\n".join(told[led[-1] :])
    if "[button] Show phone number" in page:
        return action("submit", "Show phone number")
    if "[button] Search" not in page:
        return action("finish") if "Sea Ray" in page.split("\n# ")[1] else action("click", "Boats for sale")
    held = dict(HELD.findall(since))
    for label, value in WANTED.items():
        if held[label] != value:
            return action("select_option", label, value)
    if "?" not in page.partition("page /")[2].partition(",")[0]:
        return action("submit", "Search")
    return action("click", re.findall(r"^\[link\] (.*Sea Ray.*?)(?: -> .*)?$", page, re.MULTILINE)[0])


def mostly_gives_up(request: CompletionRequest) -> str:
    """A policy that is only ever right by a hot draw."""
    is_lucky = request.sampling.temperature_micro > 0 and (request.sampling.seed or 0) % 2 == 0
    return finds_the_number(request) if is_lucky else action("finish")


class OfABase(Scripted):
    """A scripted model whose tokens are those of a base: bytes, moved into its vocabulary."""

    def __init__(self, script: Callable[[CompletionRequest], str], base: Base) -> None:
        super().__init__(script, offers=Offers(logprobs=True, token_ids=True, seed=True, images=False, schema=False))
        self.base = base

    def complete(self, request: CompletionRequest) -> Completion:
        done = super().complete(request)
        served = Served(self.base.tokenizer, self.base.chat_template, processed=True)
        short = tuple(
            replace(sample, token_ids=(sample.token_ids or ())[-16:], tokens=(sample.tokens or ())[-16:])
            for sample in done.samples
        )
        asked = (done.prompt_token_ids or ())[-16:]
        return replace(done, samples=short, prompt_token_ids=asked, served=served)


class Policies(Mapping[str, PolicyExecutor]):
    """A policy for any weights."""

    def __init__(self, base: Base) -> None:
        self._weak = PolicyExecutor(OfABase(mostly_gives_up, base))
        self._strong = PolicyExecutor(OfABase(finds_the_number, base))

    def __getitem__(self, weights: str) -> PolicyExecutor:
        return self._weak if weights == "base" else self._strong

    def __iter__(self) -> Iterator[str]:
        return iter(("base",))

    def __len__(self) -> int:
        return 1

    def __contains__(self, weights: object) -> bool:
        return True


@contextmanager
def scripted(base: Base) -> Iterator[Executor]:
    yield ByWeights(Policies(base))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    return make_base(tmp_path_factory.mktemp("bases"))


@pytest.fixture(scope="module")
def client() -> Iterator[EnvClient]:
    with local_site("marketplace") as site, EnvClient(site.admin_url, site.admin_token) as opened:
        yield opened


def test_a_loop_killed_at_every_word_completes_and_repeats_no_stage(
    empty_house: House, client: EnvClient, base: Base, tmp_path: Path
) -> None:
    house = with_models(empty_house, tmp_path / "models")
    admitted(house.store, "marketplace")
    kills, allowed, why, noted = 0, 0, None, list[str]()
    while why is None:
        head, reporter = house.store.head(), Dying(allowed, noted=noted)
        try:
            why = SlowController(house, client, "marketplace", COURSE, reporter, scripted, base=str(base.path)).run()
        except Killed:
            kills += 1
            allowed = 0 if house.store.head() > head else allowed + 1  # it says what it begins with, too
    assert why == "no round is left of 1"
    assert kills > 5
    assert {note.split()[0] for note in noted if note} == {"loss"}

    events = [recorded.event for recorded in house.store.read()]
    counted = Counter(str(event.type) for event in events)
    once = ("SweepPlanned", "DatasetFrozen", "CheckpointSaved", "BenchmarkFrozen", "EvaluationOpened", "VerdictReached")
    assert {kind: counted[kind] for kind in once} == dict.fromkeys(once, 1)
    courses = [(each.actor, str(each.event.type)) for each in house.store.read(stream="course/marketplace")]
    assert courses == [("slow-controller", "CourseOpened"), ("slow-controller", "CourseClosed")]
    started = Counter(event.run for event in events if isinstance(event, RunStarted))
    finished = Counter(event.run for event in events if isinstance(event, RunFinished))
    assert started == finished
    assert set(started.values()) == {1}

    (saved,) = house.views().find(WEIGHTS).values()
    (verdict,) = house.views().find(VERDICTS).values()
    reached = verdict.verdict_reached()
    assert reached is not None
    assert (verdict.decision, verdict.challenger["weights"]) == ("promote", saved.checkpoint), reached.reasons
    assert present_champion(house.views()).pointed_artifact().weights == saved.checkpoint
    assert every_verdict_recomputes(house) == 1
    assert all(found.is_identical for found in compare(house.views()))


def test_a_dataset_whose_runs_were_withdrawn_is_frozen_again(
    empty_house: House, client: EnvClient, base: Base, tmp_path: Path
) -> None:
    house = with_models(empty_house, tmp_path / "models")
    admitted(house.store, "marketplace")

    def controller(reporter: Dying) -> SlowController:
        return SlowController(house, client, "marketplace", COURSE, reporter, scripted, base=str(base.path))

    with pytest.raises(Killed):
        controller(DyingAfter(0, words=" rows of ")).run()  # the dataset is frozen
    withdraw_runs(house.store, sorted(house.views().find(RUNS)), "bad grader", "test")
    reporter = Dying(99)
    assert controller(reporter).run() == "no round is left of 1"
    assert ["new dataset" in reporter.said[-2], "no training rows" in reporter.said[-1]] == [True, True]
    assert not any(recorded.event.type == "TrainingStarted" for recorded in house.store.read())


def test_what_could_not_be_judged_is_refused_before_anything_is_played(
    empty_house: House, client: EnvClient, base: Base, tmp_path: Path
) -> None:
    house, of_base = with_models(empty_house, tmp_path / "models"), str(base.path)
    admitted(house.store, "marketplace")
    asked: list[str] = []

    @contextmanager
    def serving_nothing(_base: Base) -> Iterator[Executor]:
        asked.append("served")
        yield ByWeights({})

    with pytest.raises(NotServed, match="base"):  # the benchmark is frozen by now
        SlowController(house, client, "marketplace", COURSE, Dying(99), serving_nothing, of_base).run()
    others = replace(COURSE, tasks=("marketplace.lead_filtered_search",))
    with pytest.raises(OtherTasks, match="lead_filtered_search; expected marketplace"):
        SlowController(house, client, "marketplace", others, Dying(99), serving_nothing, of_base).run()
    assert asked == ["served"]
    assert not any(recorded.event.type == "SweepPlanned" for recorded in house.store.read())


def test_without_a_base_it_says_how_to_make_one(empty_house: House, client: EnvClient) -> None:
    admitted(empty_house.store, "marketplace")
    controller = SlowController(empty_house, client, "marketplace", COURSE, Dying(99), scripted)
    with pytest.raises(NoBase, match="flywheel train warmup"):
        controller.run()
    assert not any(recorded.event.type == "SweepPlanned" for recorded in empty_house.store.read())


def test_a_suite_with_too_few_sealed_seeds_is_refused_before_a_warm_up_plays(
    empty_house: House, client: EnvClient
) -> None:
    admitted(empty_house.store, "marketplace")
    bundled = require(bundled_for("marketplace"))
    seeds = SuiteSeeds(training=SeedSpan(first=0, last=99), sealed=SeedSpan(first=200, last=210))
    few = VersionedSuite(bundled.model_copy(update={"seeds": seeds}), 1)
    asked: list[str] = []

    def warm_up(_house: House) -> str:
        asked.append("warmed up")
        return "none"

    controller = SlowController(
        empty_house, client, "marketplace", COURSE, Dying(99), scripted, warm_up=warm_up, suite=few
    )
    with pytest.raises(NoFreshSeeds, match="200 to 210"):
        controller.run()
    assert asked == []
    assert not any(recorded.event.type in {"SweepPlanned", "BenchmarkFrozen"} for recorded in empty_house.store.read())


def test_over_the_command_line_a_base_that_never_passes_teaches_nothing(
    empty_house: House,
    empty_database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The base is a random one: it plays its rounds in this process, and nothing can be learned from them."""
    admitted(empty_house.store, "marketplace")
    fast = freeze_benchmark("marketplace-1", "marketplace", without_plans([PHONE]), [9_000], range(10_000, 10_050), 1)
    by_hand = freeze_benchmark("by-hand", "marketplace", without_plans([PHONE]), [0], [1, 2], 1)
    for benchmark in (fast, by_hand):  # the fast loop keeps its seeds, and somebody those that training would see first
        freeze_into(empty_house.store, benchmark, "test")
    base = make_base(tmp_path / "bases", longest=4096)
    stages = tmp_path / "stages.json"
    stages.write_text('[{"algorithm": "sft", "steps": 1, "learning_rate": "0.1"}]')
    monkeypatch.setenv("FLYWHEEL_DATABASE_URL", empty_database.app_url)
    monkeypatch.setenv("FLYWHEEL_KEYS", str(empty_database.keys))
    monkeypatch.setenv("FLYWHEEL_MODELS", str(tmp_path / "models"))
    monkeypatch.setenv("FLYWHEEL_POLICY_WORDING", "brief")
    options = ("--task", COURSE.tasks[0], "--seeds", "1", "--siblings", "2", "--stages", str(stages), "--json")
    code = run_command(["run", "--loop", "slow", "--base", str(base.path), *options])
    said = capsys.readouterr()
    assert code == 0, said.err
    summary = json.loads(said.out)
    assert (summary["ended"], summary["runs"], summary["checkpoints"]) == ("no round is left of 1", 2, 0)
    assert "no training rows" in " ".join(said.err.split())
    assert len(empty_house.views().find(BENCHMARKS)) == 3
    (sweep,) = planned_by(empty_house.store, empty_house.views(), SLOW_CONTROLLER)
    assert {spec.env_seed for spec in sweep.specs} == {3}


def test_a_round_whose_runs_are_all_missing_ends_the_loop_with_exit_code_1_and_counts_as_none(
    empty_house: House,
    base: Base,
    shared_site: SharedSite,
    empty_database: Database,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    site = shared_site("marketplace")
    admitted(empty_house.store, "marketplace")
    monkeypatch.setattr("api.cli.run_slow.executor_of", lambda *_, **__: nullcontext(Refusing()))
    monkeypatch.setenv("FLYWHEEL_DATABASE_URL", empty_database.app_url)
    monkeypatch.setenv("FLYWHEEL_KEYS", str(empty_database.keys))
    monkeypatch.setenv("FLYWHEEL_ENV_ADMIN_TOKEN", site.admin_token)
    options = ("--task", COURSE.tasks[0], "--seeds", "1", "--siblings", "2", "--rounds", "1")
    at = ("--base", str(base.path), "--url", site.url, "--admin-url", site.admin_url)
    for number in (1, 2):
        assert run_command(["run", "--loop", "slow", *at, *options]) == 1
        said = " ".join(capsys.readouterr().err.split())
        sweeps = [sweep.sweep for sweep in planned_by(empty_house.store, empty_house.views(), SLOW_CONTROLLER)]
        assert (f"No run of {sweeps[-1]} could be graded" in said, len(sweeps)) == (True, number)
        assert "rejected the key" in said
    assert present_course(empty_house.views(), "marketplace", "slow") is None
