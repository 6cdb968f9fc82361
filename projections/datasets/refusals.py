"""Why a run is left out of a dataset, in words, with the way out of it."""

from __future__ import annotations

from collections.abc import Mapping

REFUSALS: Mapping[str, str] = {
    "benchmark": "an evaluation played it, or its instance belongs to a benchmark; such runs never enter",
    "withdrawn": "it was withdrawn; nothing is learned from it any more",
    "erased": "its subject was erased; nothing is learned from it any more",
    "not_ended": "it has no end yet; build again once it has one",
    "missing": "the platform could not play it; play the spec again",
    "treated": "it was played with one piece more or less than its siblings, so it is no draw of their policy",
    "contaminated": "it began from another state than its siblings; look at the environment's isolation",
    "no_plan": "it is a policy's run, and no row of plan steps can be made of it; ask for --runs policy, or for"
    " --runs demonstration",
    "no_model_calls": "no model chose its actions; ask for --runs plan, or play with --executor policy",
    "ungraded": "nobody graded it yet; grade it with `flywheel runs grade`",
    "reward_unknown": "the reward asked for is not known of it; grade it again, or ask for another reward",
    "below_score": "its score is below the least; lower --min-score",
    "below_floor": "its reward is below the least; lower --min-reward",
    "not_best_of_group": "a sibling did better; leave --best-of-group out",
    "alone": "no sibling is left to compare it with; play more siblings",
    "flat": "its siblings earned too much alike; play more siblings with `flywheel rollout sweep --variance-seek`",
    "mixed_shaping": "its siblings' shaped returns come from two formulas; grade them again with one",
    "unreadable": "what the model answered is not kept as a completion; record it as docs/datasets.md says",
    "sampled": "a model drew it, so its words are never tokenised; ask for --runs policy",
    "no_token_ids": "its endpoint gave no token ids; use one that does, with FLYWHEEL_MODEL_TOKEN_IDS=true",
    "no_tokenizer": "no one said which tokenizer and chat template were served; set FLYWHEEL_MODEL_TOKENIZER and"
    " FLYWHEEL_MODEL_CHAT_TEMPLATE",
    "cut_off": "an answer of it was cut at its length, so it teaches not to end; give answers more tokens",
    "no_logprobs": "the logprob of a token is not known; use an endpoint that gives them",
    "lengths_differ": "it has another number of logprobs than of tokens; mend the endpoint",
    "not_finite": "a logprob is infinite or no number; mend the endpoint",
    "raw_logprobs": "its logprobs are of another distribution than it was drawn from: sampling was tempered, cut or"
    " bound to a schema; serve processed logprobs, and say so with FLYWHEEL_MODEL_PROCESSED_LOGPROBS=true",
    "greedy": "it was drawn at temperature 0, which has no probabilities; draw at 1",
    "mixed_policies": "it and its siblings were drawn by different weights, models, tokenizers, templates or samplings,"
    " or began with different prompts",
    "split": "its calls do not extend one another token by token, so it is no one answer to its prompt",
    "no_pair": "no sibling is far enough from it, or the group has its pairs; lower --margin, or raise --max-pairs",
}
"""Every reason, with what it means and what to do."""
