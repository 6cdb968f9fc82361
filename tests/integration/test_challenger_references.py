"""Challengers by reference: what lies at a place is found, checked and judged, and never the silent base."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from agents.envs.provider import Site
from agents.executors.by_weights import refuse_unserved
from agents.executors.local import LocalPolicies
from agents.models.model import ChatMessage, CompletionRequest, Model
from agents.models.servers.errors import ChallengerUnfit, ReferenceMissing, ReferenceUnmounted
from agents.models.servers.plan import Challenger
from api.cli.main import USAGE, run_command
from api.controllers.fast import Controller
from api.house import House
from api.queries.champion import present_champion
from api.serving.challengers import find_challenger
from api.serving.errors import ReferenceChanged
from api.sweeps.executors import Way, executor_of
from api.sweeps.plan import first_facts
from api.training.publish import publish
from eventlog.blobs import Blob
from eventlog.errors import BaseDiffers, CheckpointAltered
from eventlog.events import CheckpointFile, CheckpointSaved, ModelCalled, RunStarted, Sampling
from eventlog.store import Append
from eventlog.weights_folder import TENSORS, Base
from projections.checkpoints import WEIGHTS, WeightsState
from tests.admitted import admitted
from tests.conftest import Database
from tests.golden.test_golden_samples import sample
from tests.learned import with_models
from tests.model_server import ModelServer, model_server
from tests.sites import SharedSite
from tests.tiny import make_base, planted_checkpoint
from trainer.checkpoint import Checkpoint

pytestmark = [
    pytest.mark.timeout(300),  # the first to run imports what a model needs
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

CONTROL = "marketplace.control_draw"
ASK = CompletionRequest((ChatMessage("user", ("open /boats/17",)),), Sampling(temperature_micro=0, max_tokens=12))


@dataclass(frozen=True)
class Shelf:
    """A base, a checkpoint on it, and one of another base."""

    base: Base
    saved: Checkpoint
    alien: Checkpoint


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Shelf:
    folder = tmp_path_factory.mktemp("shelf")
    base, other = make_base(folder / "bases"), make_base(folder / "bases", seed=2)
    return Shelf(base, planted_checkpoint(folder, base, 1, scale=0.5), planted_checkpoint(folder / "others", other, 1))


@pytest.fixture
def house(empty_house: House, tmp_path: Path) -> House:
    return with_models(empty_house, tmp_path / "models")


def record(house: House, checkpoint: Checkpoint) -> WeightsState:
    """Have the log know a checkpoint with its files."""
    bodies = {file.name: Blob("application/octet-stream", file.read_bytes()) for file in checkpoint.path.iterdir()}
    files = tuple(CheckpointFile(name=name, blob=house.blobs.put([blob])[0]) for name, blob in bodies.items())
    event = sample("CheckpointSaved", checkpoint=checkpoint.digest, algorithm="sft")
    assert isinstance(event, CheckpointSaved)
    event = event.model_copy(update={"files": files, "base": checkpoint.manifest.base, "parent": None})
    house.store.append([Append(f"checkpoint/{event.checkpoint}", (event,), "test")])
    return house.views().find(WEIGHTS)[event.checkpoint]


def said(model: Model) -> tuple[int, ...]:
    ids = model.complete(ASK).samples[0].token_ids
    assert ids is not None
    return ids


def test_an_adapter_in_a_mounted_volume_is_played_and_its_base_and_other_checkpoints_beside_it(
    house: House, shelf: Shelf, tmp_path: Path
) -> None:
    record(house, shelf.saved)
    mounted = {"store": shelf.saved.path.parent}
    house = House(
        house.settings.model_copy(update={"mounts": mounted}), house.engine, house.store, house.blobs, house.projector
    )
    wanted = Challenger(adapter=f"store:/{shelf.saved.digest}")
    found = find_challenger(house, wanted, f"transformers:{shelf.base.path}")
    assert (found.weights, found.plan.server, found.plan.is_challenger) == (shelf.saved.digest, "transformers", True)
    with executor_of(Way.POLICY, found.settings, model=found.model, folder_of=found.folder_of) as policies:
        assert isinstance(policies, LocalPolicies)
        models = [policies.policy_for(weights).model for weights in ("base", found.weights)]
        assert said(models[0]) != said(models[1])
    with pytest.raises(ReferenceUnmounted, match="expected one of store"):
        find_challenger(house, Challenger(adapter="other:/ck"))


def test_what_is_missing_changed_unknown_or_of_another_base_is_refused_by_name(
    house: House, shelf: Shelf, tmp_path: Path
) -> None:
    model = f"transformers:{shelf.base.path}"
    with pytest.raises(ReferenceMissing, match="/nowhere"):
        find_challenger(house, Challenger(adapter="/nowhere/ck"), model)
    with pytest.raises(ReferenceChanged, match="digest of a checkpoint of the log"):
        find_challenger(house, Challenger(adapter=str(shelf.saved.path)), model)
    record(house, shelf.saved)
    record(house, shelf.alien)
    changed = Path(shutil.copytree(shelf.saved.path, tmp_path / "changed"))
    with (changed / TENSORS).open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x7f")
    with pytest.raises(CheckpointAltered):
        find_challenger(house, Challenger(adapter=str(changed)), model)
    with pytest.raises(BaseDiffers):
        find_challenger(house, Challenger(adapter=str(shelf.alien.path)), model)
    with pytest.raises(ChallengerUnfit, match="_challenger_model"):
        find_challenger(house, Challenger(model=str(shelf.saved.path)), model)


def test_a_published_gguf_file_is_known_by_its_digest_until_it_changes(house: House, tmp_path: Path) -> None:
    base = make_base(tmp_path / "bases", "llama")
    saved = planted_checkpoint(tmp_path, base, 1)
    state = record(house, saved)
    store = tmp_path / "store"
    store.mkdir()
    place = Path(publish(house, state, base, "gguf-adapter", str(store), "test").place)
    reference = Challenger(adapter=str(place / "adapter.gguf"))
    found = find_challenger(house, reference, f"llamacpp:{base.path}")
    assert (found.plan.server, found.plan.convert) == ("llama.cpp", None)
    assert found.plan.arguments[-2:] == ("--lora", str(place / "adapter.gguf"))
    link = found.folder_of(saved.digest)
    assert (link.suffix, link.read_bytes()) == (".gguf", (place / "adapter.gguf").read_bytes())
    whole = Path(publish(house, state, base, "gguf-q8_0", str(store), "test").place) / "model-q8_0.gguf"
    merged = find_challenger(house, Challenger(model=str(whole)), f"llamacpp:{base.path}")
    assert merged.settings.model_gguf == "q8_0"  # the champion's base computes alike
    place.chmod(0o755)
    (place / "adapter.gguf").chmod(0o644)
    (place / "adapter.gguf").write_bytes(b"GGUF")
    with pytest.raises(ReferenceChanged, match="files with the digest"):
        find_challenger(house, reference, f"llamacpp:{base.path}")


@pytest.fixture(scope="module")
def site(shared_site: SharedSite) -> Site:
    return shared_site("marketplace")


@pytest.fixture
def endpoint() -> Iterator[ModelServer]:
    halt = json.dumps({"why": "enough", "action": "halt", "target": "", "value": ""})
    with model_server(lambda _: halt) as running:
        yield running


Flywheel = Callable[..., tuple[int, str, str]]


@pytest.fixture
def flywheel(
    house: House,
    empty_database: Database,
    endpoint: ModelServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Flywheel:
    """Run a command of a house with an admitted site: exit code, output, errors."""
    admitted(house.store, "marketplace")
    first_facts(house)
    own = {
        "FLYWHEEL_DATABASE_URL": empty_database.app_url,
        "FLYWHEEL_OWNER_URL": empty_database.owner_url,
        "FLYWHEEL_KEYS": str(empty_database.keys),
        "FLYWHEEL_MODELS": str(house.settings.model_folder),
        "FLYWHEEL_MODEL": "m1",
        "FLYWHEEL_MODEL_URL": endpoint.url,
        "FLYWHEEL_MODEL_STORE": "/models",
    }
    for name, value in own.items():
        monkeypatch.setenv(name, value)

    def run(*arguments: str) -> tuple[int, str, str]:
        code = run_command(list(arguments))
        printed = capsys.readouterr()
        return code, printed.out, " ".join(printed.err.split())

    return run


def test_the_gate_judges_an_adapter_that_the_endpoint_loads_by_its_digest(
    flywheel: Flywheel, house: House, shelf: Shelf, site: Site, endpoint: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLYWHEEL_ENV_ADMIN_TOKEN", site.admin_token)
    monkeypatch.setenv("FLYWHEEL_MODEL_BASE", shelf.base.digest)
    record(house, shelf.saved)
    where = ("--url", site.url, "--admin-url", site.admin_url)
    frozen = ("benchmark", "freeze", "b", "--task", CONTROL, "--sealed", "2", "--visible", "0", "--challengers", "2")
    assert flywheel(*frozen)[0] == 0
    judged = ("gate", "run", "--benchmark", "b", "--lora-adapter", str(shelf.saved.path), "--test", "bootstrap", *where)
    code, out, err = flywheel(*judged)
    assert (code, "hold" in out) == (2, True), err
    served = f"m1+{shelf.saved.digest[:12]}"
    assert endpoint.loaded == {served: str(shelf.saved.path.resolve())}
    asked = {each.body["model"] for each in endpoint.asked if each.path.endswith("completions")}
    assert asked == {"m1", served}
    started = [each.event for each in house.store.read(types=["RunStarted"])]
    arms = {(each.arm.arm, each.artifact.weights) for each in started if isinstance(each, RunStarted) and each.arm}
    assert arms == {("champion", "base"), ("challenger", shelf.saved.digest)}


AGENT = """
import json, os, urllib.request

def ask(task):
    body = {"model": os.environ["FLYWHEEL_MODEL"], "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}
    key = {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), key), timeout=60).read()
"""


def test_both_arms_of_an_agent_are_answered_by_their_own_weights_and_one_model_alone_is_refused(
    flywheel: Flywheel, house: House, shelf: Shelf, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "asking.py").write_text(AGENT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLYWHEEL_ENV_ADMIN_TOKEN", site.admin_token)
    record(house, shelf.saved)
    frozen = ("benchmark", "freeze", "b", "--task", CONTROL, "--sealed", "2", "--visible", "0", "--challengers", "2")
    assert flywheel(*frozen)[0] == 0
    named = ("--challenger", f"ck-{shelf.saved.digest[:8]}@0", "--agent", "python:asking:ask", "--test", "bootstrap")
    judged = ("gate", "run", "--benchmark", "b", *named, "--url", site.url, "--admin-url", site.admin_url)
    head = house.store.head()
    code, _, err = flywheel(*judged)
    assert (code, "an agent of your own plays with one model" in err, house.store.head()) == (USAGE, True, head), err
    assert "FLYWHEEL_MODEL=transformers:FOLDER" in err
    monkeypatch.setenv("FLYWHEEL_MODEL", f"transformers:{shelf.base.path}")
    code, _, err = flywheel(*judged)
    assert code == 2, err
    events = [each.event for each in house.store.read(types=["RunStarted", "ModelCalled"])]
    arms = {
        each.run: (each.arm.arm, each.artifact.weights) for each in events if isinstance(each, RunStarted) and each.arm
    }
    assert {*arms.values()} == {("champion", "base"), ("challenger", shelf.saved.digest)}
    name = f"transformers:{shelf.base.digest[:12]}"
    tuned = {"champion": name, "challenger": f"{name}+{shelf.saved.digest[:12]}"}
    asked = {each.run: each.model for each in events if isinstance(each, ModelCalled)}
    assert asked == {run: tuned[arm] for run, (arm, _) in arms.items()}


def test_the_fast_loop_of_a_policy_serves_a_champion_of_trained_weights(
    flywheel: Flywheel, house: House, shelf: Shelf, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(house, shelf.saved)
    trained = present_champion(house.views()).pointed_artifact().model_copy(update={"weights": shelf.saved.digest})
    served: list[str] = []

    def serve_champion(controller: Controller) -> str:
        refuse_unserved(controller.executor, [trained])
        served.append(trained.weights)
        return "served"

    monkeypatch.setattr(Controller, "run", serve_champion)
    monkeypatch.setenv("FLYWHEEL_ENV_ADMIN_TOKEN", site.admin_token)
    monkeypatch.setenv("FLYWHEEL_MODEL", f"transformers:{shelf.base.path}")
    where = ("--url", site.url, "--admin-url", site.admin_url)
    code, _, err = flywheel("run", "--executor", "policy", *where)
    assert (code, served) == (0, [shelf.saved.digest]), err


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ((), USAGE, "0 challengers are named"),
        (("--lora-adapter", "/a", "--challenger-model", "/b.gguf"), USAGE, "2 challengers are named"),
        (("--lora-adapter", "/a", "--challenger", "base@0"), USAGE, "2 challengers are named"),
        (("--lora-adapter", "/a", "--executor", "browser"), USAGE, "weights are played by a policy"),
        (("--lora-adapter", "/nowhere/a"), 1, "Nothing lies at the reference /nowhere/a"),
        (("--challenger-model", "/nowhere/b.gguf"), 1, "Nothing lies at the reference /nowhere/b.gguf"),
        (("--lora-adapter", "a"), 1, "names no place"),
        (("--lora-adapter", "vol:/a"), 1, "is not mounted"),
    ],
)
def test_the_gate_names_what_is_wrong_with_a_reference_and_opens_nothing(
    words: tuple[str, ...], code: int, told: str, flywheel: Flywheel, house: House
) -> None:
    head = house.store.head()
    found, _, err = flywheel("gate", "run", *words)
    assert (found, told in err, house.store.head()) == (code, True, head), err
