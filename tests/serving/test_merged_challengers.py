"""A challenger that is a whole GGUF file: the gate plays it beside the base, and its tokens are its adapter's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from agents.envs.provider import Site
from agents.executors.local import LocalPolicies
from agents.models.servers.plan import Challenger
from api.house import House
from api.serving.challengers import find_challenger
from api.sweeps.executors import Way, executor_of
from api.training.publish import publish
from eventlog.events import ModelCalled, RunStarted
from eventlog.weights_folder import Base
from tests.integration.test_challenger_references import (
    CONTROL,
    Flywheel,
    endpoint,
    flywheel,
    house,
    record,
    said,
    site,
)
from tests.tiny import make_base, planted_checkpoint
from trainer.checkpoint import Checkpoint

__all__ = ["endpoint", "flywheel", "house", "site"]

pytestmark = [
    pytest.mark.serving,
    pytest.mark.llamacpp,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    return make_base(tmp_path_factory.mktemp("bases"), "llama", longest=4096)


@pytest.fixture(scope="module")
def saved(base: Base, tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    return planted_checkpoint(tmp_path_factory.mktemp("checkpoints"), base, 1, scale=0.5)


def published(house: House, base: Base, saved: Checkpoint, folder: Path) -> Path:
    """The checkpoint merged into its base, as a file in a folder."""
    folder.mkdir()
    event = publish(house, record(house, saved), base, "gguf-f32", str(folder), "test")
    (file,) = Path(event.place).glob("*.gguf")
    return file


def test_a_merged_file_draws_what_its_adapter_draws_and_the_base_draws_what_it_drew(
    house: House, base: Base, saved: Checkpoint, tmp_path: Path
) -> None:
    whole = published(house, base, saved, tmp_path / "store")
    model = f"llamacpp:{base.path}"

    def drawn(wanted: Challenger) -> Mapping[str, tuple[int, ...]]:
        found = find_challenger(house, wanted, model)
        with executor_of(Way.POLICY, found.settings, model=found.model, folder_of=found.folder_of) as policies:
            assert isinstance(policies, LocalPolicies)
            return {weights: said(policies.policy_for(weights).model) for weights in ("base", found.weights)}

    merged, adapted = drawn(Challenger(model=str(whole))), drawn(Challenger(adapter=str(saved.path)))
    assert merged == adapted
    assert merged["base"] != merged[saved.digest]


def test_the_gate_judges_a_merged_file_by_the_weights_of_its_checkpoint(
    flywheel: Flywheel,
    house: House,
    base: Base,
    saved: Checkpoint,
    site: Site,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = published(house, base, saved, tmp_path / "store")
    monkeypatch.setenv("FLYWHEEL_ENV_ADMIN_TOKEN", site.admin_token)
    monkeypatch.setenv("FLYWHEEL_MODEL", f"llamacpp:{base.path}")
    monkeypatch.setenv("FLYWHEEL_POLICY_WORDING", "brief")
    frozen = ("benchmark", "freeze", "b", "--task", CONTROL, "--sealed", "2", "--visible", "0", "--challengers", "2")
    assert flywheel(*frozen)[0] == 0
    where = ("--url", site.url, "--admin-url", site.admin_url)
    judged = ("gate", "run", "--benchmark", "b", "--challenger-model", str(whole), "--test", "bootstrap", *where)
    code, out, err = flywheel(*judged)
    assert (code, "hold" in out) == (2, True), err
    events = [each.event for each in house.store.read(types=["RunStarted", "ModelCalled"])]
    arms = {
        each.run: (each.arm.arm, each.artifact.weights) for each in events if isinstance(each, RunStarted) and each.arm
    }
    assert {*arms.values()} == {("champion", "base"), ("challenger", saved.digest)}
    name = f"llamacpp:{base.digest[:12]}"
    asked = {each.run: each.model for each in events if isinstance(each, ModelCalled)}
    assert asked == {
        run: name if arm == "champion" else f"{name}+{saved.digest[:12]}" for run, (arm, _) in arms.items()
    }
