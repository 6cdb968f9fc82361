"""A policy that is shown pictures, by commands: on a page whose right control is nothing but pixels."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PIL import Image

from agents.executors.browser.surface import BrowserSurface
from agents.models.errors import NotOffered
from api.cli.main import run_command
from api.history.replay import replay_run
from api.house import House
from api.settings import Settings
from api.sweeps.executors import Way, executor_of, options_of, worker_of
from eventlog.events import RewardGraded, RunStarted, StepTaken, SweepPlanned
from tests.conftest import Database
from tests.model_server import Asked, ModelServer, model_server
from tests.own_agent import model_settings
from tests.own_site import TOKEN, OwnSite, blocks, serve_own_site

pytestmark = pytest.mark.browser

PAINTED = '''
def page(shop, root, path, is_order):
    if path in shop["prices"] and is_order:
        shop["bought"].append(path)
        return "Bought."
    places = [[60 + 150 * n, 40 + 17 * (shop["seed"] * 7 + n) % 300] for n in range(4)]
    right = min(shop["prices"], key=shop["prices"].get)
    wrong = [name for name in shop["prices"] if name != right][:3]
    at = shop["seed"] % 4
    names = wrong[:at] + [right] + wrong[at:]
    return f"""<body style="margin:0"><canvas width="700" height="500"></canvas><script>
const places = {places}, names = {names}, shown = document.querySelector("canvas"), pen = shown.getContext("2d");
names.forEach((name, n) => {{
  pen.fillStyle = name == "{right}" ? "#00a000" : "#a00000"; pen.fillRect(...places[n], 60, 30) }});
shown.onclick = ({{ offsetX: left, offsetY: top }}) => {{
  const n = places.findIndex(([x, y]) => left >= x && left < x + 60 && top >= y && top < y + 30);
  if (n < 0) return;
  const sent = document.createElement("form");
  sent.method = "post"; sent.action = `{root}/${{names[n]}}`;
  document.body.append(sent); sent.submit() }};
</script>"""


def answer('''
"""The shop with one page: four boxes painted on a canvas. The green one buys the cheapest jacket."""


def look_for_green(asked: Asked) -> str:
    """A model that opens the first page, clicks at what is green in the last picture, and finishes without any."""
    pictures = [
        part["image_url"]["url"].partition(",")[2]
        for message in asked.body["messages"]
        if isinstance(message["content"], list)
        for part in message["content"]
        if part["type"] == "image_url"
    ]
    if "There is nothing to do." in asked.text or len(pictures) > 1:
        return answer("finish")
    if not pictures:
        return answer("navigate", "/")
    picture = Image.open(io.BytesIO(base64.b64decode(pictures[-1]))).convert("RGB")
    width, raw = picture.width, picture.tobytes()
    green = [
        at for at, (r, g, b) in enumerate(zip(raw[::3], raw[1::3], raw[2::3], strict=True)) if g > 120 > 2 * max(r, b)
    ]
    if not green:
        return answer("finish")
    middle = green[len(green) // 2]
    return answer("click_at", "", f"{middle % width},{middle // width}")


def answer(action: str, target: str = "", value: str = "") -> str:
    return json.dumps({"why": "it is green", "action": action, "target": target, "value": value})


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnSite]:
    (code,) = blocks("python")
    before, _, after = code.partition("def page(")
    painted = before + PAINTED.strip() + after.partition("def answer(")[2]
    with serve_own_site(tmp_path_factory.mktemp("painted"), code=painted) as site:
        yield site


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with model_server(look_for_green) as running:
        yield running


Flywheel = Callable[..., tuple[int, str]]


@pytest.fixture
def flywheel(
    shop: OwnSite,
    model: ModelServer,
    empty_database: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Flywheel:
    own = {
        "FLYWHEEL_DATABASE_URL": empty_database.app_url,
        "FLYWHEEL_OWNER_URL": empty_database.owner_url,
        "FLYWHEEL_KEYS": str(empty_database.keys),
        TOKEN: shop.token,
        **model_settings(model.url),
    }
    for name, value in own.items():
        monkeypatch.setenv(name, value)
    tasks = tmp_path / "tasks.toml"
    tasks.write_text('name = "errands"\nenvironment = "shop"\n\n[[tasks]]\nid = "shop.buy"\n', "utf-8")

    def run(*words: str) -> tuple[int, str]:
        code = run_command(list(words))
        return code, "".join(capsys.readouterr())

    assert run("env", "add", "shop", *shop.place, "--suite", str(tasks))[0] == 0
    code, said = run("env", "probe", "shop")
    assert code == 0, said
    return run


def passes(house: House, sweep: str) -> dict[str, bool]:
    graded = (each.event for each in house.store.read(types=["RewardGraded"]))
    return {each.run: each.passed for each in graded if isinstance(each, RewardGraded) and each.run.startswith(sweep)}


SWEEP = ("rollout", "sweep", "shop", "--executor", "policy", "--seeds", "0-2", "--siblings", "1", "--max-parallel", "2")


def test_a_policy_does_by_sight_what_no_text_tells_and_nothing_without_the_pixels(
    flywheel: Flywheel, model: ModelServer, empty_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = empty_house
    code, said = flywheel(*SWEEP, "--sight", "screenshot", "--sweep", "seen")
    assert code == 0, said
    assert list(passes(house, "seen").values()) == [True] * 3
    started = [each.event for each in house.store.read(types=["RunStarted"])]
    assert {each.executor for each in started if isinstance(each, RunStarted)} == {"policy-screenshot"}
    taken = [each.event for each in house.store.read(types=["StepTaken"]) if isinstance(each.event, StepTaken)]
    assert {each.action for each in taken} == {"navigate", "click_at", "finish"}
    assert all(each.screenshot for each in taken if each.action != "finish")
    (planned,) = [each.event for each in house.store.read(types=["SweepPlanned"])]
    assert isinstance(planned, SweepPlanned)
    assert options_of(planned) == "--executor policy --sight screenshot --model my-model"
    assert worker_of(planned).endswith("--executor policy --sight screenshot")
    run = planned.specs[0].spec_id
    assert replay_run(house.store, house.blobs, house.views, run).divergence is None
    code, said = flywheel(*SWEEP, "--sweep", "seen")  # by text it is another executor
    assert (code, "policy-screenshot" in said) == (1, True), said
    flywheel(*SWEEP, "--sweep", "read")
    assert list(passes(house, "read").values()) == [False] * 3
    monkeypatch.setattr(BrowserSurface, "screenshot", blank(BrowserSurface.screenshot))
    flywheel(*SWEEP, "--sight", "screenshot", "--sweep", "blank")
    assert list(passes(house, "blank").values()) == [False] * 3


def test_a_course_of_a_policy_plays_by_sight(flywheel: Flywheel, empty_house: House) -> None:
    sight = ("--executor", "policy", "--sight", "screenshot", "--max-parallel", "2")
    code, said = flywheel("run", "--site", "shop", *sight, "--rounds", "1", "--seeds", "1")
    assert code == 0, said
    assert set(passes(empty_house, "shop-1__").values()) == {True}
    started = [each.event for each in empty_house.store.read(types=["RunStarted"])]
    assert {each.executor for each in started if isinstance(each, RunStarted)} == {"policy-screenshot"}


def blank(draw: Callable[[BrowserSurface], bytes | None]) -> Callable[[BrowserSurface], bytes | None]:
    """Pictures of the same size with nothing on them."""

    def screenshot(surface: BrowserSurface) -> bytes | None:
        drawn = draw(surface)
        if drawn is None:
            return None
        into = io.BytesIO()
        Image.new("RGB", Image.open(io.BytesIO(drawn)).size, "white").save(into, "PNG")
        return into.getvalue()

    return screenshot


@pytest.mark.parametrize("settings", [Settings(model="transformers:/x"), Settings(model="m", model_base="a" * 64)])
def test_weights_that_take_no_pictures_are_refused_before_a_window_is_opened(settings: Settings) -> None:
    with pytest.raises(NotOffered, match="images"), executor_of(Way.POLICY, settings, sight="screenshot"):
        pass


def test_sight_is_an_option_of_a_policy(flywheel: Flywheel) -> None:
    for words in (("run", "--site", "shop"), ("rollout", "sweep", "shop"), ("worker", "--site", "shop")):
        code, said = flywheel(*words, "--sight", "screenshot")
        assert (code, "is for a policy" in said) == (64, True), said
