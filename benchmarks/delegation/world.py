"""A task that one pass does not solve, and scripted models that decide only from the prompt that they get.

Five messages are encoded with a key that nobody knows. A scout finds the key and writes it down as a skill. A smith
writes a tool that decodes. A decoder needs both: the key from a skill, the decoding from a tool. Its work fails now and
then, so the manager delegates it again. The manager reads from the rolling summary what was decoded, and reports the
sum. An oracle knows the sum.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from agents.executors.delegation.loop import LoopMeans
from agents.executors.delegation.sandbox import ToolSandbox
from agents.executors.delegation.truth import GroundTruth
from agents.executors.delegation.workers import ModelWorker
from agents.models.model import CompletionRequest
from agents.models.scripted import Scripted
from eventlog.events import LoopConfig, LoopLimits

KEY: Final = 731
MESSAGES: Final = 5
FAILS_BELOW: Final = 32
"""Of 256: how often a decoder's attempt fails, drawn from the seed that the loop gives it."""

CODE: Final = """def handler(*, text, key):
    digits = ''.join(str((int(each) - int(key)) % 10) for each in str(text) if each.isdigit())
    return {'number': int(digits or '0') % 100000}
"""
TOOL: Final = {
    "action": "create_tool",
    "fqn": "dynamic.decode",
    "description": "decodes a message with a key",
    "parameters": {
        "type": "object",
        "properties": {"text": {"type": "string"}, "key": {"type": "integer"}},
    },
    "code": CODE,
}
SKILL: Final = (
    f"# Skill: Message Key\n\n## Purpose\nThe key of the encoded messages.\n\n## Rules\nThe key is {KEY}. "
    "Give it to the decoding tool together with the whole text of a message. Do not shorten the text, and do not "
    "decode by hand, because a single wrong digit changes the number that is reported."
)
LIMITS: Final = LoopLimits(max_loops=12, max_total_workers=60, max_total_tokens=400_000, max_tool_calls=120)


@dataclass(frozen=True, slots=True)
class World:
    """One task of the class: its messages, made from a seed."""

    seed: int

    @property
    def messages(self) -> Mapping[str, str]:
        """The encoded messages by name."""
        return {f"m{n}": _number(f"message {self.seed} {n}", 10**8, 12) for n in range(1, MESSAGES + 1)}

    @property
    def task(self) -> str:
        """What the manager is told."""
        lines = "\n".join(f"{name}: {text}" for name, text in self.messages.items())
        return f"Decode these messages and report the sum of their numbers.\n{lines}"

    @property
    def answer(self) -> str:
        """What the oracle knows."""
        return str(sum(decode(text) for text in self.messages.values()))

    def grade(self, result: Mapping[str, Any]) -> bool:
        """The oracle: whether a final result reports the sum."""
        return str(result.get("answer")) == self.answer


def decode(text: str, key: int = KEY) -> int:
    """What the tool returns for a message."""
    return int("".join(str((int(each) - key) % 10) for each in text)) % 100_000


def config_without(*left_out: str) -> LoopConfig:
    """The configuration of the demo, without these mechanisms: summary, skills, tools."""
    config = LoopConfig(budget=LIMITS, worker_rounds=6)
    for name in left_out:
        part = getattr(config, name).model_copy(update={"enabled": False})
        config = config.model_copy(update={name: part})
    return config


def means_of(world: World, sandbox: ToolSandbox) -> LoopMeans:
    """Scripted manager and workers for a world, and its oracle."""
    manager = Scripted(lambda request: decide(request.messages[1].text), name="manager")
    worker = ModelWorker(Scripted(work, name="worker"), config_without())
    return LoopMeans(manager, worker, sandbox, GroundTruth(grade=world.grade))


def decide(prompt: str) -> str:
    """The manager's decision, from its prompt alone."""
    numbers = {name: int(value) for name, value in re.findall(r"\b(m\d): decoded (\d+)", prompt)}
    texts = dict(re.findall(r"^(m\d): (\d+)$", prompt, re.MULTILINE))
    if texts and numbers.keys() == texts.keys():
        return json.dumps(
            {"decision": "complete", "final_result": {"answer": str(sum(numbers.values()))}, "confidence": 0.95}
        )
    if "`message_key`" not in prompt and "### Iteration" not in prompt:
        scout = {"worker_id": "scout", "instructions": "Find the key of the messages and write it down as a skill."}
        smith = {"worker_id": "smith", "instructions": "Write the tool dynamic.decode."}
        return json.dumps({"decision": "delegate", "reasoning": "the key comes first", "delegations": [scout, smith]})
    missing = [name for name in texts if name not in numbers]
    told = [
        {
            "worker_id": name,
            "instructions": f"Decode the message {name}: {texts[name]}. Iteration {_iteration(prompt)}.",
            "skills": ["message_key"],
            "tools_allowed": ["dynamic.decode"],
        }
        for name in missing
    ]
    return json.dumps({"decision": "delegate", "reasoning": f"{len(missing)} are missing", "delegations": told})


def work(request: CompletionRequest) -> str:
    """What a worker does next, from its order and what it was told since."""
    order, said = request.messages[1].text, request.messages[-1].text
    if "Find the key" in order:
        return _answer("the key is written down", 0.5, SKILL)
    if "Write the tool" in order:
        return _answer("the tool is there", 0.5) if said is not order and "is there" in said else _last(order, said)
    return _decoded(order, said, request.sampling.seed or 0)


def _last(order: str, said: str) -> str:
    return json.dumps(TOOL) if said == order else _answer(said, 0.1)


def _decoded(order: str, said: str, seed: int) -> str:
    found = re.search(r"Decode the message (m\d): (\d+)", order)
    key = re.search(r"The key is (\d+)", order)
    if found is None or key is None:
        return _answer("there is no key", 0.1)
    if said == order:
        if "dynamic.decode" not in order.partition("## Tools")[2]:
            return _answer("there is no tool", 0.1)
        arguments = {"text": found[2], "key": int(key[1])}
        return json.dumps({"action": "call", "tool": "dynamic.decode", "arguments": arguments})
    number = re.search(r'The tool returned: \{"number": (\d+)\}', said)
    if number is None or _draw(seed) < FAILS_BELOW:
        return _answer("could not be read", 0.2)
    return _answer(f"decoded {number[1]}", 0.9)


def _answer(findings: str, confidence: float, *skills: str) -> str:
    told = {"action": "answer", "findings": findings, "confidence": confidence, "skills_created": list(skills)}
    return json.dumps(told)


def _iteration(prompt: str) -> str:
    found = re.search(r"## Current Iteration\n(\d+)", prompt)
    return "0" if found is None else found[1]


def _draw(seed: int) -> int:
    return hashlib.sha256(str(seed).encode()).digest()[0]


def _number(text: str, most: int, digits: int) -> str:
    value = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) % (most * 10_000)
    return str(value).rjust(digits, "1")
