"""The plain loop that the recipe is timed against takes the step that it says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

plain = pytest.importorskip("benchmarks.real.plain", reason="it needs the training libraries")
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

EOS, PAD = 1, 0
PROMPTS = ([5, 6, 7], [8])
ANSWERS = ([[9, EOS, PAD], [9, 10, 11], [12, 13, EOS]], [[4, EOS, PAD], [5, EOS, PAD], [6, EOS, PAD]])
REWARDS = [[1.0, 0.5, 0.0], [0.5, 0.5, 0.5]]


def tiny_model() -> Any:
    torch.manual_seed(1)
    config = transformers.LlamaConfig(
        vocab_size=16,
        hidden_size=8,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
    )
    return transformers.LlamaForCausalLM(config).eval()


def expected_loss(model: Any) -> Any:
    """Row by row and without padding: the mean over tokens of minus advantage times log-probability."""
    terms = []
    for prompt, answers, rewards in zip(PROMPTS, ANSWERS, REWARDS, strict=True):
        mean = sum(rewards) / 3
        spread = (sum((each - mean) ** 2 for each in rewards) / 2) ** 0.5
        for answer, reward in zip(answers, rewards, strict=True):
            shown = answer[: answer.index(EOS) + 1] if EOS in answer else answer
            logits = model(torch.tensor([[*prompt, *shown]])).logits[0, len(prompt) - 1 : -1]
            chosen = torch.log_softmax(logits, -1)[range(len(shown)), shown]
            terms += [(-(reward - mean) / (spread + 0.0001) * chosen)] if spread else []
    return torch.cat(terms).mean()


def test_a_step_follows_the_gradient_of_the_groups_that_differ_up_to_the_end_of_each_answer() -> None:
    model, expected = tiny_model(), tiny_model()
    expected_loss(expected).backward()
    torch.nn.utils.clip_grad_norm_(expected.parameters(), 1.0)
    padded = [[*[PAD] * (3 - len(prompt)), *prompt] for prompt in PROMPTS]
    seen = [[0] * (3 - len(prompt)) + [1] * len(prompt) for prompt in PROMPTS]
    rows = [[*prompt, *answer] for prompt, answers in zip(padded, ANSWERS, strict=True) for answer in answers]
    before = [each.detach().clone() for each in model.parameters()]
    plain.take_step(
        model,
        SimpleNamespace(eos_token_id=EOS),
        torch.optim.SGD(model.parameters(), lr=1.0),
        torch.tensor(rows),
        {"input_ids": torch.tensor(padded), "attention_mask": torch.tensor(seen)},
        REWARDS,
    )
    moved = [old - new for old, new in zip(before, model.parameters(), strict=True)]
    wanted = [each.grad for each in expected.parameters()]
    assert max(float(each.abs().max()) for each in wanted) > 0.01
    for mine, its in zip(moved, wanted, strict=True):
        torch.testing.assert_close(mine, its, atol=1e-6, rtol=1e-4)


def test_a_step_on_groups_that_all_ended_alike_changes_nothing() -> None:
    model = tiny_model()
    before = [each.detach().clone() for each in model.parameters()]
    prompt = {"input_ids": torch.tensor([[5, 6]]), "attention_mask": torch.ones(1, 2, dtype=torch.long)}
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    plain.take_step(
        model, SimpleNamespace(eos_token_id=EOS), optimizer, torch.tensor([[5, 6, 7, 8]] * 2), prompt, [[0.5] * 2]
    )
    for old, new in zip(before, model.parameters(), strict=True):
        assert torch.equal(old, new)
