"""llama.cpp in this process: adapters and merged models beside a base, and that nothing wrong is the silent base."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from agents.models.errors import AdapterUnfit, BaseUnfit, LibrariesMissing
from agents.models.llamacpp.library import load_library
from agents.models.llamacpp.network import SIDECAR, LlamaEngine, describe_gguf, quantised_engine
from agents.models.local.host import Host
from agents.models.model import ChatMessage, CompletionRequest, Model
from api.errors import NotConverted
from api.serving.conversion import Conversions, adopt_file
from eventlog.events import Sampling
from eventlog.weights_folder import Base
from tests.tiny import convert_here, make_base, planted_checkpoint
from trainer.checkpoint import Checkpoint

pytestmark = [
    pytest.mark.serving,
    pytest.mark.llamacpp,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore:The following .* keys did not match any targeted module:RuntimeWarning"),
]

ASK = (ChatMessage("user", ("open /boats/17 and press",)),)


def drawn(model: Model, seed: int = 1, words: str = "", temperature: int = 1_000_000) -> tuple[int, ...]:
    asked = (*ASK, ChatMessage("user", (words,))) if words else ASK
    sampling = Sampling(temperature_micro=temperature, max_tokens=16, seed=seed, wants_logprobs=True)
    (sample,) = model.complete(CompletionRequest(asked, sampling)).samples
    assert sample.token_ids is not None
    return sample.token_ids


def logprobs(model: Model, seed: int = 1) -> list[float]:
    sampling = Sampling(temperature_micro=1_000_000, max_tokens=16, seed=seed, wants_logprobs=True)
    (sample,) = model.complete(CompletionRequest(ASK, sampling)).samples
    assert sample.tokens is not None
    return [token.logprob for token in sample.tokens]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Base:
    return make_base(tmp_path_factory.mktemp("bases"), "llama")


@pytest.fixture(scope="module")
def saved(base: Base, tmp_path_factory: pytest.TempPathFactory) -> list[Checkpoint]:
    folder = tmp_path_factory.mktemp("checkpoints")
    return [planted_checkpoint(folder, base, seed=seed, scale=0.3) for seed in (1, 2, 3)]


@pytest.fixture(scope="module")
def made(base: Base, saved: list[Checkpoint], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The GGUF files of the base and of the checkpoints, by digest."""
    found = Conversions(tmp_path_factory.mktemp("weights"), base, convert=convert_here)
    return {base.digest: found.base_file()} | {
        each.digest: found.checkpoint_file(each.digest, each.path) for each in saved
    }


@pytest.fixture(scope="module")
def host(base: Base, made: dict[str, Path]) -> Iterator[Host]:
    with closing(Host(base.path, LlamaEngine(made[base.digest]))) as opened:
        yield opened


def test_a_host_that_is_closed_gives_the_memory_of_its_model_back(
    base: Base, made: dict[str, Path], saved: list[Checkpoint]
) -> None:
    file = made[base.digest]

    def mappings() -> int:
        return Path("/proc/self/maps").read_text().count(str(file))

    before = mappings()
    with closing(Host(base.path, LlamaEngine(file))) as opened:
        first = drawn(opened.base())
        drawn(opened.adapted_model(saved[0].digest, made.__getitem__))
        assert mappings() > before
    assert mappings() == before
    with closing(Host(base.path, LlamaEngine(file))) as again:
        assert drawn(again.base()) == first


def test_adapters_are_swapped_on_one_model_and_the_base_comes_back(
    host: Host, made: dict[str, Path], saved: list[Checkpoint]
) -> None:
    models = [host.base(), *(host.adapted_model(each.digest, made.__getitem__) for each in saved)]
    first = [drawn(model) for model in models]
    before = logprobs(host.base())
    assert len(set(first)) == 4
    assert [drawn(model) for model in reversed(models)] == first[::-1]
    assert logprobs(host.base()) == pytest.approx(before, abs=1e-6)  # a kept prefix changes how sums are rounded


def test_what_is_drawn_is_what_transformers_draws_from_the_same_weights(
    host: Host, base: Base, made: dict[str, Path], saved: list[Checkpoint]
) -> None:
    (one, *_) = saved
    with closing(Host(base.path)) as plain:
        pairs = [
            (host.base(), plain.base()),
            (host.adapted_model(one.digest, made.__getitem__), plain.adapted_model(one.digest, lambda _: one.path)),
        ]
        for ours, theirs in pairs:
            assert [drawn(ours, seed) for seed in range(4)] == [drawn(theirs, seed) for seed in range(4)]
            assert drawn(ours, temperature=0) == drawn(theirs, temperature=0)
            assert logprobs(ours) == pytest.approx(logprobs(theirs), abs=1e-5)


def test_requests_side_by_side_get_what_they_get_alone_though_rows_wait_for_room(
    base: Base, made: dict[str, Path], saved: list[Checkpoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agents.models.llamacpp.network.CELLS", 160)  # two conversations at once, and nothing kept
    with closing(Host(base.path, LlamaEngine(made[base.digest]))) as small:
        models = [small.base(), small.adapted_model(saved[0].digest, made.__getitem__)]
        asked = [(model, seed, words) for seed in range(6) for model in models for words in ("", "and again", "call")]
        alone = [drawn(*each) for each in asked]
        with ThreadPoolExecutor(12) as threads:
            assert list(threads.map(lambda each: drawn(*each), asked)) == alone


def test_a_bound_of_adapters_evicts_and_loads_again(base: Base, made: dict[str, Path], saved: list[Checkpoint]) -> None:
    with closing(Host(base.path, LlamaEngine(made[base.digest]), most_adapters=1)) as tight:
        models = [tight.adapted_model(each.digest, made.__getitem__) for each in saved]
        first = [drawn(model) for model in models]
        assert [tight.loaded_model(each.digest) is not None for each in saved] == [False, False, True]
        assert [drawn(model) for model in models] == first
        with ThreadPoolExecutor(6) as threads:
            assert list(threads.map(drawn, models * 4)) == first * 4


def test_half_the_scale_gives_something_else(base: Base, made: dict[str, Path], saved: list[Checkpoint]) -> None:
    with closing(Host(base.path, LlamaEngine(made[base.digest], scale=0.5))) as half:
        scaled = logprobs(half.adapted_model(saved[0].digest, made.__getitem__))
        with closing(Host(base.path, LlamaEngine(made[base.digest]))) as whole:
            assert scaled != logprobs(whole.adapted_model(saved[0].digest, made.__getitem__))
            assert scaled != logprobs(whole.base())


def test_a_missing_changed_or_corrupt_adapter_is_refused(
    host: Host, base: Base, made: dict[str, Path], saved: list[Checkpoint], tmp_path: Path
) -> None:
    digest, file = saved[1].digest, made[saved[1].digest]
    fresh = "9" * 64

    def copy(name: str) -> Path:
        shutil.copyfile(file.with_suffix(SIDECAR), (tmp_path / name).with_suffix(SIDECAR))
        return Path(shutil.copyfile(file, tmp_path / name))

    with pytest.raises(AdapterUnfit, match="No such file"):
        host.adapted_model(fresh, lambda _: tmp_path / "none.gguf")
    changed = copy("changed.gguf")
    content = bytearray(changed.read_bytes())
    content[-1] ^= 1
    changed.write_bytes(content)
    with closing(Host(base.path, LlamaEngine(made[base.digest]))) as other:
        with pytest.raises(AdapterUnfit, match="sha256"):
            other.adapted_model(digest, lambda _: changed)
        with pytest.raises(AdapterUnfit, match="its weights"):
            other.adapted_model(fresh, lambda _: copy("another.gguf"))
        corrupt = tmp_path / "corrupt.gguf"
        corrupt.write_bytes(file.read_bytes()[:600])
        describe_gguf(corrupt, digest, base.digest, "adapter")
        with pytest.raises(AdapterUnfit, match="cannot load it"):
            other.adapted_model(digest, lambda _: corrupt)
        alien = copy("alien.gguf")
        describe_gguf(alien, digest, "a" * 64, "adapter")
        with pytest.raises(AdapterUnfit, match="its base"):
            other.adapted_model(digest, lambda _: alien)
        assert drawn(other.base()) == drawn(host.base())


def test_an_adapter_of_another_shape_is_refused(base: Base, made: dict[str, Path], tmp_path: Path) -> None:
    wide = make_base(tmp_path / "wide", "llama", hidden=128)
    other = planted_checkpoint(tmp_path / "checkpoints", wide, seed=1)
    file = Conversions(tmp_path / "weights", wide, convert=convert_here).checkpoint_file(other.digest, other.path)
    describe_gguf(file, other.digest, base.digest, "adapter")  # as if it were of this base
    with closing(Host(base.path, LlamaEngine(made[base.digest]))) as opened, pytest.raises(AdapterUnfit):
        opened.adapted_model(other.digest, lambda _: file)


def test_a_base_that_is_no_gguf_of_this_base_is_refused(base: Base, made: dict[str, Path], tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(made[base.digest].read_bytes()[:5000])
    with closing(Host(base.path, LlamaEngine(broken))) as opened, pytest.raises(BaseUnfit):
        drawn(opened.base())
    describe_gguf(broken, base.digest, base.digest, "base")
    with closing(Host(base.path, LlamaEngine(broken))) as opened, pytest.raises(BaseUnfit, match="cannot load"):
        drawn(opened.base())


def test_an_architecture_without_adapters_is_served_merged_beside_its_base(tmp_path: Path) -> None:
    experts = make_base(tmp_path / "bases", "qwen3_moe", experts=4)
    one = planted_checkpoint(tmp_path / "checkpoints", experts, seed=1, scale=0.3)
    found = Conversions(tmp_path / "weights", experts, convert=convert_here)
    with closing(Host(experts.path, LlamaEngine(found.base_file()))) as opened:
        merged = opened.adapted_model(one.digest, found.files_of(lambda _: one.path))
        assert drawn(merged, temperature=0) != drawn(opened.base(), temperature=0)
        with closing(Host(experts.path)) as plain:
            theirs = plain.adapted_model(one.digest, lambda _: one.path)
            assert logprobs(merged) == pytest.approx(logprobs(theirs), abs=1e-4)
            assert logprobs(opened.base()) == pytest.approx(logprobs(plain.base()), abs=1e-4)


def test_a_file_is_converted_once_and_a_failure_says_why(base: Base, tmp_path: Path) -> None:
    found = Conversions(tmp_path, base, "q8_0", convert=convert_here)
    first = found.base_file()
    before = first.stat().st_mtime_ns
    assert found.base_file().stat().st_mtime_ns == before
    assert sorted(path.suffix for path in (tmp_path / "gguf").iterdir() if not path.name.startswith(".")) == [
        ".gguf",
        ".json",
    ]
    with pytest.raises(NotConverted, match="CheckpointMissing"):
        found.checkpoint_file("5" * 64, tmp_path / "nowhere")


def test_a_gguf_file_that_lies_elsewhere_is_served_where_it_lies_and_refused_once_it_changed(
    host: Host, base: Base, made: dict[str, Path], saved: list[Checkpoint], tmp_path: Path
) -> None:
    one = saved[0]
    elsewhere = Path(shutil.copyfile(made[one.digest], tmp_path / "adapter.gguf"))
    link = adopt_file(tmp_path / "models", elsewhere, one.digest, base.digest, "adapter")
    assert adopt_file(tmp_path / "models", elsewhere, one.digest, base.digest, "adapter") == link
    file_of = Conversions(tmp_path / "weights", base, convert=convert_here).files_of(lambda _: link)
    with closing(Host(base.path, LlamaEngine(made[base.digest]))) as other:
        assert drawn(other.adapted_model(one.digest, file_of)) == drawn(
            host.adapted_model(one.digest, made.__getitem__)
        )
    elsewhere.write_bytes(made[saved[1].digest].read_bytes())
    with closing(Host(base.path, LlamaEngine(made[base.digest]))) as other, pytest.raises(AdapterUnfit, match="sha256"):
        other.adapted_model(one.digest, file_of)


def test_a_cache_in_half_precision_moves_logprobs_a_little(base: Base, made: dict[str, Path], host: Host) -> None:
    with closing(Host(base.path, LlamaEngine(made[base.digest], cache="f16"))) as half:
        found, exact = logprobs(half.base()), logprobs(host.base())
        assert found != exact
        assert found == pytest.approx(exact, abs=5e-3)


def test_quantised_weights_give_no_logprobs_to_train_on(base: Base, tmp_path: Path) -> None:
    file = Conversions(tmp_path, base, "q8_0", convert=convert_here).base_file()
    engine = quantised_engine(file)
    with closing(Host(base.path, engine)) as opened:
        assert not opened.base().offers.logprobs
    told, plain = replace(engine, is_exact=True), LlamaEngine(file)
    with closing(Host(base.path, told)) as flash, closing(Host(base.path, plain)) as slow:
        (found, *_), (expected, *_) = logprobs(flash.base()), logprobs(slow.base())
    assert found != expected
    assert found == pytest.approx(expected, abs=0.02)


def test_a_library_that_is_not_installed_is_named_with_its_extra() -> None:
    with pytest.raises(LibrariesMissing, match="llamacpp"):
        load_library("no_such_llama")
