"""Models behind one protocol: scripted, any OpenAI-compatible endpoint, Anthropic; and a judge that asks one."""
