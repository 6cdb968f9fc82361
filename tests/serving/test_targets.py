"""Deploy targets: the generated app and Truss run here on a tiny GGUF, with nothing of this project but their files."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from api.serving.conversion import Conversions
from api.serving.errors import TargetRefused
from api.serving.targets.generation import DeployTarget, TargetName, write_target
from tests.tiny import convert_here, make_base, planted_checkpoint

pytestmark = [
    pytest.mark.serving,
    pytest.mark.llamacpp,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

ASK = {"messages": [{"role": "user", "content": "open /boats/17"}], "max_tokens": 8, "temperature": 0}
MODAL = '''
"""A stand-in for modal: what decorates changes nothing, what is configured is taken."""
class Any:
    def __getattr__(self, _):
        return Any()
    def __call__(self, *args, **options):
        return args[0] if len(args) == 1 and not options and (isinstance(args[0], type) or callable(args[0])) else self
def enter():
    return lambda method: method
def fastapi_endpoint(**options):
    assert options["requires_proxy_auth"]
    return lambda method: method
class App:
    def __init__(self, name): pass
    def cls(self, **options):
        return lambda kind: kind
Image, Volume = Any(), Any()
'''
PLAY = """
import importlib.util, json, sys
from pathlib import Path
file, kind, data = sys.argv[1:4]
spec = importlib.util.spec_from_file_location("generated", file)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
served = module.Serve() if kind == "modal" else module.Model(data_dir=data, config={}, secrets={})
found, drawn = [], []
for asked in json.loads(sys.stdin.read()):
    try:
        if not found:
            served.load()
        answer = served.predict(asked)
        if not isinstance(answer, dict):
            error = json.loads(answer.body)["error"]
            found.append(f"{answer.status_code} {error['type']}: {error['message']}")
            continue
        choice = answer["choices"][0]
        found.append(choice["message"]["content"])
        drawn.append([each["id"] for each in (choice.get("logprobs") or {"content": []})["content"]])
    except Exception as problem:
        found.append(f"{type(problem).__name__}: {problem}")
import agents.models
print(json.dumps({"found": found, "drawn": drawn, "carried": str(Path(agents.models.__file__))}))
"""


@pytest.fixture(scope="module")
def volume(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A volume with a base, an adapter on it, and a file that is none."""
    folder = tmp_path_factory.mktemp("made")
    base = make_base(folder, "llama")
    saved = planted_checkpoint(folder, base, 1, scale=0.5)
    made = Conversions(folder, base, convert=convert_here)
    store = tmp_path_factory.mktemp("volume")
    shutil.copyfile(made.base_file(), store / "model.gguf")
    shutil.copyfile(made.checkpoint_file(saved.digest, saved.path), store / "adapter.gguf")
    (store / "broken.gguf").write_bytes((store / "adapter.gguf").read_bytes()[:600])
    return store


def play(made: Path, target: TargetName, asked: list[dict[str, Any]], **environment: str) -> list[str]:
    """The answers of what was generated."""
    found: list[str] = run_generated(made, target, asked, **environment)["found"]
    return found


def run_generated(made: Path, target: TargetName, asked: list[dict[str, Any]], **environment: str) -> dict[str, Any]:
    """Answers and token ids of what was generated, in a process that has no other module of this project."""
    stand_in = made.parent / "modal.py"
    stand_in.write_text(MODAL)
    file = made / ("app.py" if target == "modal" else "model/model.py")
    done = subprocess.run(
        [sys.executable, "-c", PLAY, str(file), target, str(made / "data")],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        check=True,
        cwd=made.parent,
        env={**os.environ, "PYTHONPATH": str(made.parent), **environment},
    )
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert Path(told["carried"]).is_relative_to(made / "packages")
    return told


def test_a_modal_app_takes_a_challenger_with_each_request_and_never_answers_by_the_base_instead(
    volume: Path, tmp_path: Path
) -> None:
    wanted = DeployTarget("modal", volume / "model.gguf", "tiny", "store", str(volume), context=128)
    made = write_target(wanted, tmp_path / "modal")
    further: list[dict[str, Any]] = [
        {},
        {"_lora_adapter": "store:/adapter.gguf"},
        {"_lora_adapter": "store:/adapter.gguf", "_lora_scale": 0.5},
        {},
        {"_lora_adapter": "store:/missing.gguf"},
        {"_lora_adapter": "store:/broken.gguf"},
        {"_lora_adapter": "other:/adapter.gguf"},
        {"_lora_adapter": "store:/adapter.gguf", "_challenger_model": "store:/model.gguf"},
    ]
    found = play(made, "modal", [{**ASK, **each} for each in further])
    assert len({*found[:3]}) == 3
    assert found[3] == found[0]
    kinds = ("ReferenceMissing", "ChallengerUnfit", "ReferenceUnmounted", "ChallengerAmbiguous")
    errors = [f"400 {kind}" for kind in kinds]
    assert [each.partition(":")[0] for each in found[4:]] == errors


def test_a_truss_carries_its_model_and_has_the_adapter_of_its_environment(volume: Path, tmp_path: Path) -> None:
    made = write_target(
        DeployTarget("baseten", volume / "model.gguf", "tiny", "store", context=128), tmp_path / "truss"
    )
    shutil.copyfile(volume / "adapter.gguf", made / "data" / "adapter.gguf")
    (plain,) = play(made, "baseten", [ASK])
    fixed, other = play(
        made,
        "baseten",
        [ASK, {**ASK, "_challenger_model": "store:/model.gguf"}],
        FLYWHEEL_LORA_ADAPTER="store:/adapter.gguf",
    )
    assert fixed != plain
    assert other.startswith("400 ChallengerAmbiguous")
    config = (made / "config.yaml").read_text()
    assert "bundled_packages_dir: packages" in config
    assert "xllamacpp==" in config
    (made / "data" / "model.gguf").write_bytes(b"GGUF other")
    (refused,) = play(made, "baseten", [ASK])
    assert refused.startswith("ChallengerUnfit")


def test_both_hosts_draw_the_same_tokens_at_temperature_0(volume: Path, tmp_path: Path) -> None:
    modal = DeployTarget("modal", volume / "model.gguf", "tiny", "store", str(volume), context=128)
    truss = DeployTarget("baseten", volume / "model.gguf", "tiny", "store", context=128)
    apps = [write_target(each, tmp_path / each.target) for each in (modal, truss)]
    shutil.copyfile(volume / "adapter.gguf", apps[1] / "data" / "adapter.gguf")
    asked = {**ASK, "logprobs": True}
    by_request = run_generated(apps[0], "modal", [{**asked, "_lora_adapter": "store:/adapter.gguf"}])["drawn"]
    fixed = run_generated(apps[1], "baseten", [asked], FLYWHEEL_LORA_ADAPTER="store:/adapter.gguf")["drawn"]
    assert by_request == fixed
    assert len(fixed[0]) > 1


def test_what_cannot_be_deployed_is_refused_and_nothing_is_written(volume: Path, tmp_path: Path) -> None:
    with pytest.raises(TargetRefused, match="exists"):
        write_target(DeployTarget("modal", volume / "model.gguf", "tiny"), tmp_path)
    with pytest.raises(TargetRefused, match="does not exist"):
        write_target(DeployTarget("modal", volume / "missing.gguf", "tiny"), tmp_path / "out")
    with pytest.raises(TargetRefused, match="is something else"):
        write_target(DeployTarget("modal", Path(__file__), "tiny"), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
