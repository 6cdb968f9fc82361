"""The first base model, on a real site and PostgreSQL, with real training, killed again and again."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from agents.envs.clients.client import EnvClient
from agents.envs.provider import local_site
from agents.executors.by_weights import ByWeights
from agents.executors.executor import Executor
from agents.executors.policy import PolicyExecutor
from agents.models.model import CompletionRequest
from api.cli.main import run_command
from api.controllers.slow import SlowController
from api.controllers.warmup import Warming, is_told_briefly
from api.controllers.warmup_next import WarmingCourse, bases_of
from api.course import WARM_UP
from api.errors import EmptyDataset
from api.evaluations.benchmarks import without_plans
from api.history.withdraw import withdraw_runs
from api.house import House
from api.queries.champion import present_champion
from api.queries.sweeps import planned_by
from api.reporter import Reporter
from api.sweeps.plan import first_facts
from api.training.errors import NoBase, StartDiffers
from api.training.verify import retrain
from api.training.weights import base_of
from eventlog.events import ChampionPointed, CheckpointFile, CheckpointSaved, DatasetFrozen, RunStarted, WarmupConfig
from eventlog.store import Append
from eventlog.weights_folder import Base, read_base
from gate.benchmark import freeze_benchmark
from gate.promote import freeze_into
from projections.checkpoints import WEIGHTS, ancestry
from projections.rewards import REWARDS
from projections.runs import RUNS
from tests.admitted import admitted
from tests.conftest import Database
from tests.golden.test_golden_samples import sample
from tests.learned import with_models
from tests.planned import sweeps_of
from trainer.tiny import Shape

from .test_policy_rollouts import PHONE
from .test_slow_loop import COURSE, Dying, DyingAfter, Killed, OfABase, action, finds_the_number

pytestmark = [
    pytest.mark.timeout(300),  # the first to run imports what training needs
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.usefixtures("stages_here"),
]

SITE = "marketplace"
STEP = WarmupConfig(steps=1, learning_rate="0.001", rows_per_step=1)
WARMING = WarmingCourse(
    shape=Shape(vocabulary=300, hidden=32, layers=1, heads=2, key_heads=1, inner=48, longest=4096),
    demonstrated=8,
    measured=2,
    first=STEP,
    further=STEP,
    turns=5,
    high="1",
)


@pytest.fixture(scope="module")
def client() -> Iterator[EnvClient]:
    with local_site(SITE) as site, EnvClient(site.admin_url, site.admin_token) as opened:
        yield opened


class Growing:
    """Serves scripted policies: the base that is asked for first never passes, every other one does."""

    def __init__(self) -> None:
        self.bases: list[str] = []

    def __call__(self, base: Base) -> AbstractContextManager[Executor]:
        self.bases += [] if base.digest in self.bases else [base.digest]
        return self._serving(base)

    @contextmanager
    def _serving(self, base: Base) -> Iterator[Executor]:
        script = gives_up if base.digest == self.bases[0] else finds_the_number
        yield ByWeights({"base": PolicyExecutor(OfABase(script, base))})


def gives_up(_request: CompletionRequest) -> str:
    return action("finish")


def a_house(house: House, folder: Path) -> House:
    made = with_models(house, folder / "models")
    admitted(made.store, SITE)
    first_facts(made)
    return made


def a_warm_up(
    house: House, client: EnvClient, reporter: Reporter, serving: Growing, warming: WarmingCourse = WARMING
) -> Warming:
    return Warming(house, client, SITE, COURSE, warming, reporter, serving)


def test_a_warm_up_killed_at_every_word_completes_and_repeats_nothing(
    empty_house: House, client: EnvClient, tmp_path: Path
) -> None:
    house, serving = a_house(empty_house, tmp_path), Growing()
    kills, allowed, taken, noted = 0, 0, None, list[str]()
    while taken is None:
        head, reporter = house.store.head(), Dying(allowed, noted=noted)
        try:
            taken = a_warm_up(house, client, reporter, serving).run()
        except Killed:
            kills += 1
            allowed = 0 if house.store.head() > head else allowed + 1
    assert kills > 5
    assert {note.split()[0] for note in noted if note} == {"loss"}
    assert serving.bases == [*bases_of(house.views(), {"marketplace-shown-1"})]
    assert taken == serving.bases[1]
    assert reporter.said[-1].endswith("(2 steps, success rate 1.00, target 0.35 to 1)")

    events = [recorded.event for recorded in house.store.read()]
    counted = Counter(str(event.type) for event in events)
    assert [counted[kind] for kind in ("SweepPlanned", "DatasetFrozen", "CheckpointSaved")] == [3, 1, 2]
    started = Counter(event.run for event in events if isinstance(event, RunStarted))
    assert (len(started), set(started.values())) == (8 + 2 + 2, {1})
    shown, *measured = planned_by(house.store, house.views(), WARM_UP)
    seeds = [{spec.env_seed for spec in sweep.specs} for sweep in (shown, *measured)]
    assert seeds == [set(range(8)), {8, 9}, {8, 9}]
    assert {spec.temperature_micro for sweep in measured for spec in sweep.specs} == {1_000_000}

    (first, second) = (event for event in events if isinstance(event, CheckpointSaved))
    assert (first.checkpoint, second.base, second.checkpoint) == (serving.bases[0], first.checkpoint, taken)
    known = house.views().find(WEIGHTS)
    assert [state.checkpoint for state in ancestry(known, taken)] == [taken, first.checkpoint]
    assert is_told_briefly(house, taken)
    assert not is_told_briefly(house, first.base)

    reporter = Dying(99)
    assert a_warm_up(house, client, reporter, serving).run() == taken
    assert len(reporter.said) == 1
    assert house.store.head() == len(events)


def test_demonstrations_that_were_withdrawn_are_left_out_and_it_begins_anew(
    empty_house: House, client: EnvClient, tmp_path: Path
) -> None:
    house = a_house(empty_house, tmp_path)
    with pytest.raises(Killed):
        a_warm_up(house, client, DyingAfter(0, words="2 of 8 demonstrations passed, less than"), Growing()).run()
    passed = sorted(run for run, reward in house.views().find(REWARDS).items() if reward.passed)
    withdraw_runs(house.store, passed[:1], "shown in error", "test")
    with pytest.raises(Killed):
        a_warm_up(house, client, DyingAfter(0, words=" rows of "), Growing()).run()
    events = [recorded.event for recorded in house.store.read(types=["DatasetFrozen"])]
    assert [event.rows for event in events if isinstance(event, DatasetFrozen)] == [len(passed), len(passed) - 1]
    withdraw_runs(house.store, passed[1:], "shown in error", "test")
    with pytest.raises(EmptyDataset, match="withdrawn"):
        a_warm_up(house, client, Dying(99), Growing()).run()


def test_that_few_demonstrations_pass_is_told_before_most_of_them_are_played(
    empty_house: House, client: EnvClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.controllers.warmup._FIRST_SEEDS", 2)
    house, warming = a_house(empty_house, tmp_path), WARMING.model_copy(update={"low": "1"})
    with pytest.raises(Killed):
        a_warm_up(house, client, DyingAfter(0, words="6 further demonstrations"), Growing(), warming).run()
    assert {run.env_seed for run in house.views().find(RUNS).values()} == {0, 1}


def test_a_start_whose_folder_is_gone_is_made_again_from_what_the_log_said_then(
    empty_house: House, client: EnvClient, tmp_path: Path
) -> None:
    house = a_house(empty_house, tmp_path)
    with pytest.raises(Killed):
        a_warm_up(house, client, DyingAfter(0, words="saved "), Growing()).run()
    (warm,) = house.views().find(WEIGHTS).values()
    place = house.settings.model_folder / warm.base
    start = read_base(place, warm.base)
    shutil.rmtree(place)
    (shown,) = planned_by(house.store, house.views(), WARM_UP)
    withdraw_runs(
        house.store, [shown.specs[0].spec_id], "shown in error", "test"
    )  # it counted when the rows were frozen
    assert base_of(house, None, warm.base) == start
    assert retrain(house, warm, start, id).is_equal

    files = tuple(CheckpointFile(name=file.name, blob=file.blob) for file in warm.files)
    facts = {"algorithm": "warmup", "dataset": warm.dataset, "upto": warm.upto, "parent": None}
    by_hand = sample("CheckpointSaved", **facts).model_copy(update={"files": files, "base": "0" * 64})
    house.store.append([Append("checkpoint/x", (by_hand,), "test")])
    with pytest.raises(StartDiffers, match=f"digest {warm.base}: expected {'0' * 64}"):
        base_of(house, None, "0" * 64)
    assert not (house.settings.model_folder / ("0" * 64)).exists()
    with pytest.raises(NoBase, match="no warm-up produced"):
        base_of(house, None, "1" * 64)


def test_without_seeds_that_nobody_has_seen_or_holds_nothing_is_planned(
    empty_house: House, client: EnvClient, tmp_path: Path
) -> None:
    house = a_house(empty_house, tmp_path)
    freeze_into(house.store, freeze_benchmark("by-hand", SITE, without_plans([PHONE]), [0], [1, 2], 1), "test")
    many = WARMING.model_copy(update={"demonstrated": 8_998})
    with pytest.raises(NoBase, match="8997 of 9000 training seeds are left"):
        a_warm_up(house, client, Dying(99), Growing(), many).run()
    assert sweeps_of(house.store, SITE) == ()


def test_a_champion_on_another_base_asks_for_that_one_and_nothing_is_warmed_up(
    empty_house: House, client: EnvClient, tmp_path: Path
) -> None:
    house = a_house(empty_house, tmp_path)
    saved = sample("CheckpointSaved")
    assert isinstance(saved, CheckpointSaved)
    pointed = present_champion(house.views()).pointed_artifact().model_copy(update={"weights": saved.checkpoint})
    by_hand = ChampionPointed(artifact=pointed, by="operator", reason="a test", evaluation=None)
    house.store.append([Append("checkpoint/x", (saved,), "test"), Append("champion", (by_hand,), "test")])
    serving = Growing()

    def warm_up(own: House) -> str:
        return a_warm_up(own, client, Dying(99), serving).run()

    with pytest.raises(NoBase, match=saved.base):
        SlowController(house, client, SITE, COURSE, Dying(99), serving, warm_up=warm_up).run()
    assert sweeps_of(house.store, SITE) == ()


def test_over_the_command_line_a_first_base_is_made_and_stays_the_one(
    empty_house: House,
    empty_database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With a band from 0 the first turn is warm enough. It plays in this process, and passes nothing."""
    admitted(empty_house.store, SITE)
    warm, stages = tmp_path / "warm.json", tmp_path / "stages.json"
    warm.write_text(WARMING.model_copy(update={"low": "0"}).model_dump_json())
    stages.write_text('[{"algorithm": "sft", "steps": 1, "learning_rate": "0.1"}]')
    monkeypatch.setenv("FLYWHEEL_DATABASE_URL", empty_database.app_url)
    monkeypatch.setenv("FLYWHEEL_KEYS", str(empty_database.keys))
    monkeypatch.setenv("FLYWHEEL_MODELS", str(tmp_path / "models"))
    asked = ["run", "--loop", "slow", "--task", COURSE.tasks[0], "--seeds", "1", "--siblings", "2", "--json"]
    code = run_command([*asked, "--stages", str(stages), "--warm-up", str(warm)])
    said = capsys.readouterr()
    assert code == 0, said.err
    summary = json.loads(said.out)
    assert (summary["ended"], summary["runs"], summary["checkpoints"]) == ("no round is left of 1", 8 + 2 + 2, 1)
    told = " ".join(said.err.split())
    assert ["after 1 steps" in told, "demonstrations passed, less than" in told] == [True, False]
    (saved,) = empty_house.views().find(WEIGHTS).values()
    *_, last = sweeps_of(empty_house.store, SITE)
    assert last.model == f"transformers:{saved.checkpoint[:12]}"
    assert {state.executor for state in empty_house.views().find(RUNS, f"{last.sweep}__").values()} == {"policy"}

    before = empty_house.store.head()
    assert run_command([*asked, "--stages", str(stages)]) == 0  # by the defaults it would be warmed up further
    assert "rounds were played with it" in " ".join(capsys.readouterr().err.split())
    assert empty_house.store.head() == before
