# Every target makes the Python environment first; `make help` lists them.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SOC_STAMP := $(VENV)/.soc-installed
JOBS ?= 2

.PHONY: help setup shell run report sim sim-full verilog synth formal lint cover mutate bench waves example soc bitstream clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(STAMP) ## make the Python environment (the others do this by themselves)

$(STAMP): pyproject.toml scripts/check_system.sh
	@bash scripts/check_system.sh $(PYTHON)
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

shell: $(STAMP) ## a shell in which the program is called atoll; leave it with exit
	@PATH="$$PWD/$(BIN):$$PATH" $${SHELL:-bash} -i

run: $(STAMP) ## digits through a ring of community chiplets in RTL, compared with the golden model
	@$(BIN)/atoll run digits --config community --chiplets 4 --placement communities

report: $(STAMP) ## digits with layers that end on the neural chips and mini-batches; see atoll-out/report.html
	@$(BIN)/atoll run digits --activation tanh --batch 32

sim: $(STAMP) ## all regressions under Verilator
	@$(BIN)/atoll doctor --brief
	@$(BIN)/pytest -n $(JOBS) tb

sim-full: $(STAMP) ## the regressions with full parameter products
	@ATOLL_FULL=1 $(BIN)/pytest -n $(JOBS) tb

verilog: $(STAMP) ## Verilog of every block into build/verilog, linted
	@$(BIN)/atoll generate all --lint -o build/verilog

synth: $(STAMP) ## area and Fmax of every block on ECP5
	@$(BIN)/atoll synth all

formal: $(STAMP) ## every formal proof and its covers
	@$(BIN)/atoll formal all

lint: $(STAMP) ## ruff and mypy
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

cover: $(STAMP) ## line, branch and toggle coverage of every block's own Verilog
	@$(BIN)/atoll cover all

BLOCK ?= all
mutate: $(STAMP) ## mutation score of BLOCK (default: all)
	@$(BIN)/atoll mutate $(BLOCK)

bench: $(STAMP) ## every benchmark
	@$(BIN)/atoll bench all

TEST ?= tb/stream
waves: $(STAMP) ## run TEST and leave a waveform beside its build
	@ATOLL_WAVES=1 $(BIN)/pytest $(TEST)

example: $(STAMP) ## somebody's design with a block inside, built by FuseSoC and run; see docs/blocks.md
	@$(BIN)/atoll generate attributes.attribute_cache --lint -o build/example
	@PATH="$$($(BIN)/python -c 'from sim.harness.build import verilator_path; print(verilator_path())')" \
	  $(BIN)/fusesoc --cores-root build/example --cores-root docs/example \
	  run --work-root build/example/tlb --target sim atoll:examples:tlb

$(SOC_STAMP): $(STAMP)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,soc]'
	@touch $@

soc: $(SOC_STAMP) ## an inference by firmware on VexRiscv, in RTL, and its tests; see docs/soc.md
	@$(BIN)/atoll soc sim karate
	@$(BIN)/pytest tb/soc

bitstream: $(SOC_STAMP) ## a bitstream for an ECPIX-5 board, with open tools
	@$(BIN)/atoll soc build ecpix5

clean: ## remove everything that was built, but not the environment
	@rm -rf build atoll-out
