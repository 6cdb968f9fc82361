"""The curriculum: snippets, a few steps that do one thing, learned from good runs or authored."""

from __future__ import annotations

from .pieces import Recording, fold_of

CURRICULUM = fold_of("curriculum", 1, "snippet", Recording("SnippetLearned", id="snippet", title="title"))
