"""Recipes: named pieces of plan that can be used again, and edited as a file."""

from __future__ import annotations

from .pieces import Recording, fold_of

RECIPES = fold_of("recipes", 1, "recipe", Recording("RecipeImported", id="recipe", title="title"))
