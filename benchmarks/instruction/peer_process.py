"""Runs the `gepa` library's search in a separate virtual environment, driven by lines of JSON.

It imports nothing of Flywheel: runs are played and texts are proposed by the process that started it.
"""

# mypy: disable-error-code="import-not-found,misc,no-any-return"
# The library is in a separate environment, which mypy does not search.

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import gepa
from gepa.core.adapter import EvaluationBatch

PART = "instruction"


class Quiet:
    """A logger that says nothing."""

    def log(self, _message: str) -> None:
        """Drop a message."""


class Evaluating:
    """The library's seam: evaluates an instruction by asking the other process. The library writes the prompts."""

    propose_new_texts: Any = None

    def __init__(self, answers: Any, questions: Any) -> None:
        self.answers, self.questions = answers, questions

    def ask(self, **question: Any) -> Any:
        """Write a question and wait for its answer."""
        self.questions.write(json.dumps(question) + "\n")
        self.questions.flush()
        return json.loads(self.answers.readline())

    def evaluate(
        self,
        batch: list[int],
        candidate: dict[str, str],
        capture_traces: bool = False,  # noqa: FBT001, FBT002  (the library's signature)
    ) -> Any:
        """Score of each instance of a batch."""
        played = self.ask(play=candidate[PART], seeds=batch)
        scores = [each["score"] for each in played]
        traces = [
            {
                "Inputs": {"Instance": str(seed)},
                "Generated Outputs": each["did"],
                "Feedback": "The run passed." if each["score"] else "The run failed.",
            }
            for seed, each in zip(batch, played, strict=True)
        ]
        return EvaluationBatch(outputs=scores, scores=scores, trajectories=traces if capture_traces else None)

    def make_reflective_dataset(
        self, _candidate: dict[str, str], eval_batch: Any, components_to_update: list[str]
    ) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """What a reflector reads; the scripted one reads nothing of it."""
        return {part: list(eval_batch.trajectories or ()) for part in components_to_update}


class Asking(Evaluating):
    """The seam with the scripted reflector, which proposes a successor in the other process."""

    def propose_new_texts(
        self, candidate: dict[str, str], _reflective_dataset: Any, components_to_update: list[str], **_more: Any
    ) -> dict[str, str]:
        """The successor of an instruction."""
        return {part: self.ask(propose=candidate[part]) for part in components_to_update}


def main() -> None:
    """Search once, as the first line of standard input says, and answer with the best instruction."""
    with os.fdopen(os.dup(1), "w") as questions:
        os.dup2(2, 1)  # what the library prints goes elsewhere
        asked = json.loads(sys.stdin.readline())
        adapter = (Evaluating if asked["reflects"] else Asking)(sys.stdin, questions)
        found = gepa.optimize(
            seed_candidate={PART: ""},
            trainset=asked["train"],
            valset=asked["val"],
            adapter=adapter,
            reflection_lm=(lambda prompt: adapter.ask(complete=str(prompt))) if asked["reflects"] else None,
            candidate_selection_strategy="pareto",
            reflection_minibatch_size=asked["minibatch"],
            max_metric_calls=asked["runs"],
            stop_callbacks=lambda _state: not adapter.ask(left=True),
            seed=asked["seed"],
            logger=Quiet(),
            display_progress_bar=False,
        )
        print(json.dumps({"best": found.best_candidate[PART]}), file=questions)


if __name__ == "__main__":
    main()
