# Every target does its own set-up: the first run makes .venv and installs into it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
VIDEOS ?=
DEMO_ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help install demo test fuzz lint format typecheck docs bench bench-peers gpu-check docker docker-cpu docker-verify clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

$(VENV)/.installed: pyproject.toml requirements-dev.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 10) <= v < (3, 14) else f"vidload needs Python 3.10 to 3.13, but $(PYTHON) is {sys.version.split()[0]}: make PYTHON=python3.12 ...")'
	@test "$$(uname -s)" = Linux || echo "vidload is built for Linux; on $$(uname -s) nothing is tested and workers need memfd_create"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $@

install: $(VENV)/.installed ## Make .venv and install vidload with its development tools

demo: $(VENV)/.installed ## Train on long films with vidload and with DataLoader + decord; VIDEOS=dir takes your own
	$(BIN)/python examples/demo.py --out build/demo $(if $(VIDEOS),--videos "$(VIDEOS)") $(DEMO_ARGS)

test: $(VENV)/.installed ## Run all tests
	$(BIN)/python -m pytest

fuzz: $(VENV)/.installed ## Read 10,000 films with random edits: frames or errors, nothing else; FUZZ_ARGS="--inputs N"
	$(BIN)/python -m tests.fuzz $(FUZZ_ARGS)

lint: $(VENV)/.installed ## Check style and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/.installed ## Fix style and format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

typecheck: $(VENV)/.installed ## Check types (mypy --strict)
	$(BIN)/mypy

$(VENV)/.docs: $(VENV)/.installed requirements-docs.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-docs.txt
	@touch $@

docs: $(VENV)/.docs ## Build the documentation into build/site
	$(BIN)/mkdocs build --quiet

bench: $(VENV)/.installed ## Run all benchmarks and print their ratios
	$(BIN)/python benchmarks/run_all.py

$(VENV)/.peers: $(VENV)/.installed requirements-peers.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-peers.txt
	@touch $@

bench-peers: $(VENV)/.peers ## Compare with DataLoader, torchcodec, SPDL, DALI, and with the least that clips cost
	$(BIN)/python benchmarks/peers.py --plots $(PEERS_ARGS)

# GPU_PYTHON: one that has a CUDA build of torch (and DALI, torchcodec); make installs none.
GPU_PYTHON ?= python3

gpu-check: ## Prove on a machine with a GPU what can't be tested without: GPU_PYTHON=python with torch for CUDA
	VIDLOAD_REQUIRE_GPU=1 $(GPU_PYTHON) -m pytest -m gpu tests
	$(GPU_PYTHON) benchmarks/gpu.py --out build/gpu

DOCKER ?= docker
IMAGE ?= vidload:0.1.0
# DOCKER_ARGS: further arguments of the build, such as --build-arg PIP_EXTRA_INDEX_URL=...
DOCKER_ARGS ?=

docker: ## Build the image for GPUs (CUDA 13, DALI); DOCKER=podman, IMAGE=name:tag, DOCKER_ARGS="--build-arg ..."
	$(DOCKER) build -f docker/Dockerfile -t $(IMAGE) $(DOCKER_ARGS) .

docker-cpu: ## Build the image without GPU packages; give pip its index for CPU builds of torch in DOCKER_ARGS
	$(DOCKER) build -f docker/Dockerfile.cpu -t $(IMAGE)-cpu $(DOCKER_ARGS) .

docker-verify: ## Build the CPU image without Docker and run vidload in it (root; Debian's buildah and debootstrap)
	docker/verify.sh

clean: ## Remove .venv and everything built
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
