"""A base model named on the command line: a sweep that is played by it, and what the gate takes and refuses."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from agents.envs.provider import Site
from api.cli.main import USAGE, run_command
from api.house import House
from api.sweeps.plan import first_facts
from eventlog.weights_folder import Base
from tests.admitted import admitted
from tests.conftest import Database
from tests.planned import sweeps_of
from tests.sites import SharedSite
from tests.tiny import make_base

pytestmark = [
    pytest.mark.timeout(300),  # the first to run imports what a model needs
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

Flywheel = Callable[..., tuple[int, str, str]]
CONTROL = "marketplace.control_draw"


@pytest.fixture(scope="module")
def site(shared_site: SharedSite) -> Site:
    return shared_site("marketplace")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    return make_base(tmp_path_factory.mktemp("bases"), longest=1024)


@pytest.fixture
def flywheel(
    site: Site,
    empty_database: Database,
    empty_house: House,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Flywheel:
    """Run a command on a running, admitted site: exit code, output, errors."""
    admitted(empty_house.store, "marketplace")
    monkeypatch.setenv("FLYWHEEL_DATABASE_URL", empty_database.app_url)
    monkeypatch.setenv("FLYWHEEL_OWNER_URL", empty_database.owner_url)
    monkeypatch.setenv("FLYWHEEL_KEYS", str(empty_database.keys))
    monkeypatch.setenv("FLYWHEEL_ENV_ADMIN_TOKEN", site.admin_token)
    monkeypatch.setenv("FLYWHEEL_POLICY_WORDING", "brief")

    def run(*arguments: str) -> tuple[int, str, str]:
        code = run_command([*arguments, "--executor", "policy", "--url", site.url, "--admin-url", site.admin_url])
        printed = capsys.readouterr()
        return code, printed.out, " ".join(printed.err.split())

    return run


def test_a_sweep_for_grpo_is_played_by_a_base_model_that_is_named_by_its_folder(
    flywheel: Flywheel, empty_house: House, base: Base
) -> None:
    what = ("--task", CONTROL, "--seeds", "0", "--siblings", "3", "--temperature", "1", "--for-grpo", "--json")
    code, out, err = flywheel("rollout", "sweep", "--sweep", "own", "--model", f"transformers:{base.path}", *what)
    assert code == 0, err
    assert json.loads(out)["received"] == 3
    (planned,) = sweeps_of(empty_house.store, "marketplace")
    assert (planned.executor, planned.model) == ("policy", f"transformers:{base.digest[:12]}")
    calls = [recorded.event for recorded in empty_house.store.read(types=["ModelCalled"])]
    assert {getattr(event, "model", None) for event in calls} == {planned.model}
    code, _, err = flywheel("rollout", "sweep", "--sweep", "own", "--model", "m1")
    assert (code, "--executor policy --model transformers:FOLDER" in err) == (1, True)


def test_a_folder_without_a_base_is_named(flywheel: Flywheel) -> None:
    code, _, err = flywheel("rollout", "sweep", "--task", CONTROL, "--seeds", "0", "--model", "transformers:nowhere")
    assert (code, "base model nowhere cannot be used" in err) == (1, True)


def test_the_gate_takes_a_policy_where_each_arm_is_played_by_its_own_weights(
    flywheel: Flywheel, empty_house: House, base: Base
) -> None:
    first_facts(empty_house)
    judged = ("gate", "run", "--challenger", "base@0")
    code, _, err = flywheel(*judged)
    assert (code, "the same memory" in err) == (USAGE, True)
    code, _, err = flywheel(*judged, "--model", f"transformers:{base.path}")
    assert (code, "both have the weights base" in err) == (USAGE, True)
