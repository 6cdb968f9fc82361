"""Models behind one protocol: scripted, OpenAI-compatible, Anthropic and in-process; and a judge that uses one."""
