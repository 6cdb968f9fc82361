"""Explanations of the reasons for which a run is left out of a dataset, each with a way out."""

from __future__ import annotations

from collections.abc import Mapping

REFUSALS: Mapping[str, str] = {
    "benchmark": "an evaluation played it, or its instance belongs to a benchmark; such runs are never used",
    "withdrawn": "it was withdrawn; nothing is learned from it any more",
    "erased": "its subject was erased; nothing is learned from it any more",
    "not_ended": "it has not ended yet; build the dataset again when it has",
    "missing": "the platform could not play it; play the spec again",
    "outside": "an agent outside played it, which the query does not take; name the token that began it with --outside"
    " TOKEN, or take all with --outside all",
    "treated": "it was played with one piece more or less than its siblings, so it is not a sample of their policy",
    "contaminated": "its start state differs from its siblings'; check the environment's isolation",
    "no_plan": "it is a policy's run, which has no rows of plan steps; use --runs policy or --runs demonstration",
    "no_model_calls": "no model chose its actions; use --runs plan, or play with --executor policy",
    "ungraded": "it is not graded yet; grade it with `flywheel runs grade`",
    "graded": "its oracle graded it; a dataset that a judge selects holds runs without an oracle's grade alone",
    "unjudged": "the judge has not spoken of it; ask it with `flywheel runs grade --judge`",
    "judged_failed": "the judge says that it did not pass",
    "reward_unknown": "the requested reward is unknown; grade the run again, or request another reward",
    "below_score": "its score is below the minimum; lower --min-score",
    "below_floor": "its reward is below the minimum; lower --min-reward",
    "not_best_of_group": "a sibling did better; omit --best-of-group",
    "alone": "no sibling is left to compare it with; play more siblings",
    "flat": "its siblings' rewards differ too little; play more siblings with `flywheel rollout sweep --variance-seek`",
    "mixed_shaping": "its siblings' shaped returns come from two formulas; grade them again with one",
    "unreadable": "the model's answer is not stored as a completion; record it as described in docs/datasets.md",
    "several_samples": "its caller asked for several answers to one prompt, and which it acted on is unknown; ask"
    " for one answer a call (n=1)",
    "sampled": "a model sampled it, so its text is never tokenised again; use --runs policy",
    "no_token_ids": "its endpoint returned no token ids; use one that does, with FLYWHEEL_MODEL_TOKEN_IDS=true;"
    " for sft and dpo, --base FOLDER tokenises its text",
    "bad_token_ids": "one of its token ids is negative or beyond 2147483647, which no tokenizer has; fix the endpoint",
    "tool_calls": "one of its answers calls a tool, or holds more than text otherwise, and its tokens are unknown; use"
    " an endpoint that returns token ids, with FLYWHEEL_MODEL_TOKEN_IDS=true",
    "not_text": "one of its prompts holds more than text, such as a picture or a tool's answer, which the base's chat"
    " template does not write as its model saw it; use an endpoint that returns token ids",
    "no_tokenizer": "the tokenizer and chat template that were served are unknown; set FLYWHEEL_MODEL_TOKENIZER and"
    " FLYWHEEL_MODEL_CHAT_TEMPLATE",
    "cut_off": "one of its answers was cut at the token limit, so it would teach not to end; raise the limit",
    "no_logprobs": "the logprob of a token is unknown; use an endpoint that returns logprobs",
    "lengths_differ": "the numbers of its logprobs and tokens differ; fix the endpoint",
    "not_finite": "one of its logprobs is infinite or not a number; fix the endpoint",
    "constrained": "its answers were bound to a schema or grammar, so their logprobs are not those of the policy over"
    " the whole vocabulary; sample without one, or use the runs for sft or dpo",
    "changed_distribution": "its caller asked for top_k, min_p, penalties, biases or the like, so its tokens were not"
    " drawn from the distribution that training computes; sample without them, or use the runs for sft or dpo",
    "unknown_distribution": "its caller left out temperature, top_p, top_k, min_p or repetition_penalty, which the"
    " model server may take from its model; have them stated with FLYWHEEL_MODEL_UNCUT=true where the proxy runs, or"
    " use the runs for sft or dpo",
    "raw_logprobs": "its logprobs are not of the distribution it was sampled from, which was changed by temperature"
    " or top_p; serve processed logprobs, and set FLYWHEEL_MODEL_PROCESSED_LOGPROBS=true",
    "greedy": "it was sampled at temperature 0, which has no probabilities; sample at 1",
    "mixed_policies": "it and its siblings were sampled with different weights, models, tokenizers, chat templates or"
    " sampling parameters, or started with different prompts",
    "split": "its calls do not extend one another token by token, so it is not one answer to its prompt",
    "no_pair": "no sibling's reward differs enough, or the group has enough pairs; lower --margin or raise --max-pairs",
}
"""Maps each reason to its meaning and the way out."""
