"""The vllm backend against a real server of vLLM, which lives in an environment of its own: `make test-vllm`."""
