# Every target sets up what it needs: a virtual environment with pinned versions, nothing global.
PYTHON ?= python3
PROFILE ?= first
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
TESTED := $(VENV)/.ready-test

# Bytecode halves the time to import torch, in every process that is started.
unexport PYTHONDONTWRITEBYTECODE

help:  ## show the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  \1\t\2/' | column -t -s "$$(printf '\t')"

setup: $(TESTED)  ## make the virtual environment with pinned versions, of all targets

$(READY): pyproject.toml .ci/constraints.txt .ci/install
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)
	.ci/install $(VENV) minilm
	touch $@

$(TESTED): $(READY)
	.ci/install $(VENV) minilm,mteb,test,docs
	touch $@

reproduce: $(READY)  ## the main job: plan, measure, compare, write the leaderboard (PROFILE=first|bert|embedded|standard|papers|all, ARGS= more options)
	$(BIN)/harness reproduce --profile $(PROFILE) $(ARGS)

PYTEST := $(BIN)/pytest -p no:cacheprovider -n logical --dist worksteal
# In as many processes as there are cores: more threads would wait for each other.
ONE_THREAD := OMP_NUM_THREADS=1

test: $(TESTED)  ## the tests that a change needs; skipped ones are named
	$(ONE_THREAD) $(PYTEST) -m 'not slow' $(ARGS)

# Where approved texts are, which tests compare with what the code makes.
APPROVED := tests/cli/help.txt tests/core/defaults.txt tests/public_api.txt 'tests/*/golden/*' 'tests/cli/screens/*' \
	docs/notebooks docs/encoders.md

snapshots: $(TESTED)  ## write the approved texts anew, and show what differs (ARGS=tests/report for some of them)
	$(ONE_THREAD) $(PYTEST) --snapshot-update $(ARGS)
	@git --no-pager diff -- $(APPROVED)

test-slow: $(TESTED)  ## the tests that `make test` leaves out, and whether the benchmarks run
	$(ONE_THREAD) $(PYTEST) -m slow $(ARGS)
	$(BIN)/pytest -p no:cacheprovider benchmarks

# Instruction sets and numbers of threads add up in different orders: neither may turn a test red.
# Threads beyond the cores wait asleep, or they take the time of those that compute.
ROUNDED := $(PYTEST) -m 'not slow' tests/encoders tests/transforms $(ARGS)
AVX2 := ONEDNN_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=avx2 MKL_ENABLE_INSTRUCTIONS=AVX2 OPENBLAS_CORETYPE=Haswell

test-processors: $(TESTED)  ## encoders and transforms as on other processors: AVX2 with one thread, then four threads
	$(AVX2) $(ONE_THREAD) $(ROUNDED)
	OMP_NUM_THREADS=4 OMP_WAIT_POLICY=passive $(ROUNDED)

# Without data it says what is missing, and fails nothing.
rehearse: $(TESTED)  ## run every published cell that can run, on stand-ins of its weights; note which did
	$(BIN)/python tools/rehearse.py

test-rest: test-slow test-processors rehearse  ## what `make test` leaves out

test-all: test test-rest  ## all tests, as on other processors too

check: $(TESTED) docs  ## lint, format, types, documentation, and whether the generated files are up to date
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/harness report --check

docs: $(TESTED)  ## build the documentation site into build/docs; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict --config-file .ci/mkdocs.yml

bench: $(TESTED)  ## benchmarks: ratios measured side by side in one run, and the page of them
	$(BIN)/pytest -o faulthandler_timeout=0 benchmarks --benchmark-enable --benchmark-only --speed results/questions/speed.toml \
		$(ARGS); found=$$?; $(BIN)/harness report && exit $$found

gpu-wheels: $(TESTED)  ## the wheels that a bare machine with a GPU lacks, into build/gpu-wheels (40 MB at most)
	$(BIN)/python -m pip download --quiet --dest build/gpu-wheels --no-deps --only-binary=:all: \
		--python-version 3.12 --constraint .ci/constraints.txt --requirement .ci/gpu-packages.txt

gpu:  ## measure on this machine's GPU, in some six minutes: build/gpu/gpu.json (ARGS=--tiny tries it on a CPU)
	@$(PYTHON) -c 'import torch' 2>/dev/null || \
		{ echo "make gpu: wanted a Python with torch, found none in $(PYTHON); set PYTHON=" >&2; exit 2; }
	$(PYTHON) benchmarks/gpu.py --output build/gpu $(ARGS)

# The parts of what numbers rest on, one or more of them: `make mutants MODULE=verdict`.
MODULE = $(basename $(notdir $(wildcard .ci/mutants/*.toml)))
mutants: $(TESTED)  ## change one rule at a time of what numbers rest on, by cosmic-ray: a test must fail (hours; MODULE=verdict: one part)
	$(BIN)/python -m pip install --quiet cosmic-ray==8.7.0
	mkdir -p build/mutants && rm -f $(MODULE:%=build/mutants/%.sqlite)
	set -e; for module in $(MODULE); do \
		$(BIN)/cosmic-ray init .ci/mutants/$$module.toml build/mutants/$$module.sqlite; \
		$(BIN)/cosmic-ray exec .ci/mutants/$$module.toml build/mutants/$$module.sqlite; \
		$(BIN)/cr-report --surviving-only build/mutants/$$module.sqlite; \
	done

bill: $(TESTED)  ## what is installed: a bill of materials (build/bill.json, CycloneDX), licences, known weaknesses
	$(PYTHON) -m venv build/bill
	build/bill/bin/python -m pip install --quiet cyclonedx-bom==7.5.0 pip-licenses==5.5.5 pip-audit==2.10.1
	build/bill/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible \
		--output-file build/bill.json $(BIN)/python
	build/bill/bin/pip-licenses --python=$(BIN)/python --format=markdown --output-file=build/licences.md
	build/bill/bin/pip-audit --requirement .ci/constraints.txt --no-deps

report: $(READY)  ## write leaderboard and tables from the committed records
	$(BIN)/harness report

clean:  ## remove the virtual environment, the runs and the built documentation
	rm -rf $(VENV) runs build

.PHONY: help setup reproduce test snapshots test-slow test-processors test-rest test-all check docs bench rehearse mutants bill report clean
