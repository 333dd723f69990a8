# Everything a contributor runs. The work is in scripts/; here is only what belongs together.
#   PYTHON=python3.12      another interpreter than the first on PATH of version 3.11 or newer
#   APT=0                  install no system package, whatever is missing
#   REQUIRE=all            a test that is skipped fails
#   ARGS="-k plan -x"      further arguments for pytest; for cluster: --workers N, -- COMMAND
#   ARGS="--seed 7"        what is random, but for Hypothesis, as a run of `make soak` had it
.DEFAULT_GOAL := help
.NOTPARALLEL:
SHELL := /bin/sh
override BIN := $(CURDIR)/.venv/bin
override RUN := PATH="$(BIN):$$PATH"
# What the tests use: programs, and their Debian packages. The second line is the test cluster's.
override TESTED := fio:fio git:git chromium:chromium bindfs:bindfs mkfs.ext4:e2fsprogs
override CLUSTER := slurmctld:slurm-wlm srun:slurm-client munged:munge ip:iproute2 unshare:util-linux
# The two distributed file systems on it, and file systems for power cuts.
override MOOSEFS := mfsmaster:moosefs-master mfschunkserver:moosefs-chunkserver mfsmount:moosefs-client
override GLUSTERFS := glusterd:glusterfs-server mount.glusterfs:glusterfs-client
override SOAKED := $(MOOSEFS) $(GLUSTERFS) mkfs.btrfs:btrfs-progs mkfs.xfs:xfsprogs
override install_each = for name in $(1); do \
	command -v $${name%:*} >/dev/null || scripts/debian-packages $${name\#*:} || :; done
# Three at a time: one of them waits for the stories on clusters, mostly.
override PYTEST = $(RUN) python -m pytest --numprocesses=3 -m "unit or local or cluster" $(if $(REQUIRE),--require-all) $(ARGS)
export PYTHON APT
# Hundreds of programs are started, and each would compile its libraries.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-7s %s\n", $$1, $$2 }' Makefile

.PHONY: venv
venv: ## the virtual environment .venv, from requirements.lock
	@scripts/make-venv runtime

.PHONY: demo
# With less priority than others, who may be at work on this machine.
demo: ## a small campaign on this machine, from nothing to a report, in 90 s at most
	@nice -n 10 scripts/demo

.PHONY: test-tools
# One by one, and on without what is not to be had (no root, no such package here): pytest then says what it left out.
test-tools:
	@$(call install_each,$(TESTED) $(CLUSTER) $(MORE))
	@scripts/make-venv --apt test

.PHONY: check
check: lint ## what every change needs: unit tests, style, types, imports, documentation
	@$(RUN) python -m pytest --numprocesses=2 -m unit $(ARGS)

.PHONY: test
test: test-tools ## all tests but those of `make soak`, in 8 minutes at most
	@$(PYTEST)

.PHONY: soak
soak: override MORE := $(SOAKED)
soak: test-tools ## what is random, with high counts; faults of MooseFS and GlusterFS
	@$(PYTEST) --soak

.PHONY: cluster
cluster: ## a shell on a small Slurm cluster inside this machine, as root
	@$(call install_each,$(CLUSTER))
	@scripts/make-venv --apt runtime
	@$(RUN) python tests/support/slurm.py $(ARGS)

.PHONY: lint
lint: ## style, types, schema and workflow
	@scripts/make-venv test
	@$(RUN) ruff check
	@$(RUN) ruff format --check
	@$(RUN) mypy
	@$(RUN) lint-imports
	@$(RUN) snakefmt --check Snakefile workflow/rules
	@$(RUN) python scripts/generate --check
	@$(RUN) python scripts/lint-workflow
	@scripts/docs

.PHONY: docs
docs: ## the documentation as a site, build/docs/index.html
	@scripts/make-venv test
	@scripts/docs

.PHONY: bench
bench: ## the budgets of benchmarks/README.md, measured here
	@scripts/make-venv runtime
	@$(RUN) python benchmarks/run.py $(ARGS)

.PHONY: lock
lock: ## the two lock files again, from pyproject.toml (ARGS=--upgrade for the newest versions)
	@scripts/make-venv runtime
	@scripts/lock $(ARGS)

.PHONY: clean
clean: ## remove .venv, caches and build files, never results
	rm -rf .venv .snakemake .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist workflow/*.egg-info
	find workflow tests benchmarks scripts -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || :
