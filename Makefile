# Two commands matter: `make train` and `make test`. Both install what they need into .venv first.
#
#   make train                  peg insertion from pixels, on the simulated arm
#   make train OBS=state        the quick variant: the judge alone sees images
#   make train ARGS="--seed 1"  anything else that `robot-rl train --help` lists
#   make test                   the tests, four at a time; ARGS goes to pytest (ARGS="-n 0" for one at a time)
#   make test-fast              those that are not marked slow: under two minutes on two cores
#   make soak                   the faults of tests/faults, again and again; ARGS="--minutes 60"
#   make soak-targets           ten million ticks of attack on an arm with a body; ARGS="--ticks 1e6" is 3 minutes
#   make soak-deaths            a hundred of each death in each mode, real processes; ARGS="--tries 3"
#   make walkthrough            the commands of docs/franka.md, as they stand there, on the simulated FR3
#   make cross-check            the Franka driver against a simulated robot that nobody here wrote
#   make bench-data             the data plane, beside others' (make bench-peers installs those) and the machine's limits
#   make gpu-check              the laws of learning on a GPU, and how fast it is beside the CPU
#   make tasks                  every task from pixels, 20 to 60 minutes each; docs/tasks.md; ARGS="--tasks drawer --seeds 0 1"
#   make browser                Chromium, for the tests of the console's page; without root, how to get it
#   make check                  linter, formatter, type checker
#   make wheel                  dist/robot_rl-*.whl
#
# TORCH=cpu|cuda chooses the PyTorch build (default: cuda where nvidia-smi is found). PYTHON=... chooses the interpreter.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
unexport PYTHONDONTWRITEBYTECODE # else each of a run's processes compiles all modules anew: half a second
.PHONY: train test test-fast soak soak-targets soak-deaths walkthrough cross-check bench-data bench-learner bench-peers gpu-check tasks check wheel clean install piece-by-piece gl usb display browser

NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for python in python3.11 python3 python3.12 python3.13; do \
	if $$python -c '$(NEW_ENOUGH)' 2>/dev/null; then echo $$python; break; fi; done)
TORCH ?= $(if $(shell command -v nvidia-smi),cuda,cpu)
TORCH_CPU_INDEX := https://download.pytorch.org/whl/cpu

VENV := .venv
BIN := $(VENV)/bin
# Modules are compiled when they are first imported: one in seven of all that is installed ever is.
INSTALL := $(BIN)/pip install --no-compile -c constraints.txt
TASK ?= peg_insert
HARDWARE ?= sim_panda

# Headless GL (EGL with Mesa's software renderer) draws the simulated cameras.
GL_PACKAGES := $(BIN)/python -c 'from robot_rl.cameras.mujoco import GL_PACKAGES; print(*GL_PACKAGES)'
GL_PROBE := import sys; from robot_rl.cameras.mujoco import gl_problem; sys.exit(gl_problem() or 0)
USB_PROBE := import ctypes.util, sys; sys.exit(ctypes.util.find_library("usb-1.0") is None)
HAS_GL := $(BIN)/python -c '$(GL_PROBE)'

train: $(VENV)/.installed $(VENV)/.law gl
	$(BIN)/robot-rl train $(TASK) --hardware $(HARDWARE) $(if $(OBS),--obs $(OBS)) $(ARGS)

# Without root, the tests that draw, open a RealSense, need a display or a browser are skipped and name the command.
test: $(VENV)/.installed-dev $(VENV)/.law
	@if [ "$$(id -u)" = 0 ]; then $(MAKE) --no-print-directory gl usb display browser; fi
	$(BIN)/python -m pytest -n 4 --dist worksteal --durations 40 $(ARGS)

test-fast: $(VENV)/.installed-dev $(VENV)/.law
	$(BIN)/python -m pytest -n 4 --dist worksteal -m "not slow" $(ARGS)

soak: $(VENV)/.installed-dev $(VENV)/.law
	$(BIN)/python -m tests.faults.soak $(ARGS)

soak-targets: $(VENV)/.installed-dev $(VENV)/.law
	$(BIN)/python -m tests.controllers.adversary $(ARGS)

soak-deaths: $(VENV)/.installed-dev $(VENV)/.law
	$(BIN)/python -m tests.controllers.deaths $(ARGS)

walkthrough: $(VENV)/.installed-dev $(VENV)/.law
	$(BIN)/python -m tests.walkthrough

bench-data: $(VENV)/.installed $(VENV)/.law
	$(BIN)/python benchmarks/data.py $(ARGS)

gpu-check: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -n 0 tests/learner/test_gpu.py
	$(BIN)/python -m benchmarks.gpu $(ARGS)

tasks: $(VENV)/.installed $(VENV)/.law gl
	$(BIN)/python -m benchmarks.tasks $(ARGS)

# franky-sim wants libraries of its own: an environment of its own.
cross-check: $(VENV)/.installed-dev
	@if [ ! -x .franky-sim/bin/franky-sim ]; then \
		$(PYTHON) -m venv .franky-sim; .franky-sim/bin/pip install --quiet franky-sim==1.0.4; fi
	$(BIN)/python benchmarks/cross_check.py .franky-sim/bin/franky-sim

bench-peers: $(VENV)/.python
	benchmarks/peers.sh $(BIN)/python

check: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

wheel: $(VENV)/.python
	rm -rf dist
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	@ls dist

piece-by-piece:
	$(INSTALL) -e '.[dev,console]'
	@$(INSTALL) -e '.[spacemouse,keyboard,gamepad]' || \
		echo "evdev cannot be built here (it wants g++ and python3-dev): the tests of the operators' devices are skipped"
	@$(INSTALL) --only-binary pylibfranka -e '.[franka]' || \
		echo "pylibfranka has no wheel for this machine (it wants x86-64 Linux with glibc 2.34): its tests are skipped"
	@$(INSTALL) --only-binary pyrealsense2 -e '.[realsense]' || \
		echo "pyrealsense2 has no wheel for this machine: its tests are skipped"

clean:
	rm -rf $(VENV) .peers .franky-sim build dist .mypy_cache .ruff_cache .pytest_cache
	find robot_rl tasks tests -name __pycache__ -type d -prune -exec rm -rf {} +

install: $(VENV)/.installed-dev $(VENV)/.law

gl: $(VENV)/.installed
	@if $(HAS_GL) 2>/dev/null; then exit 0; fi; \
	install="apt-get install --yes --no-install-recommends $$($(GL_PACKAGES))"; \
	if [ "$$(id -u)" != 0 ]; then \
		echo "The cameras of the simulation need headless GL. As root, run:"; \
		echo "    apt-get update && $$install"; exit 1; \
	fi; \
	export DEBIAN_FRONTEND=noninteractive; apt-get update; $$install; \
	$(HAS_GL) # or say why not

# The keyboard's test presses keys of a display that nobody sees.
display:
	@if ! command -v Xvfb >/dev/null; then \
		export DEBIAN_FRONTEND=noninteractive; apt-get update; apt-get install --yes --no-install-recommends xvfb; fi

# The console's tests press the page's buttons.
browser:
	@if command -v chromium >/dev/null; then exit 0; fi; \
		if [ "$$(id -u)" != 0 ]; then \
			echo "The tests of the console's page need Chromium. As root, run:"; \
			echo "    apt-get update && apt-get install --yes --no-install-recommends chromium"; exit 1; fi; \
		export DEBIAN_FRONTEND=noninteractive; apt-get update; \
		apt-get install --yes --no-install-recommends chromium

# The wheel of pyrealsense2 looks for the system's libusb.
usb: $(VENV)/.installed-dev
	@if ! $(BIN)/python -c '$(USB_PROBE)'; then \
		export DEBIAN_FRONTEND=noninteractive; apt-get update; \
		apt-get install --yes --no-install-recommends libusb-1.0-0; fi

$(VENV)/.python:
	@if [ -z "$(PYTHON)" ]; then echo "Python 3.11 or newer is needed: apt-get install python3 python3-venv python3-dev"; exit 1; fi
	@if ! $(PYTHON) -c '$(NEW_ENOUGH)'; then echo "$(PYTHON) is older than Python 3.11; choose another with PYTHON=..."; exit 1; fi
	@if ! $(PYTHON) -c 'import ensurepip, venv' 2>/dev/null; then \
		echo "$(PYTHON) has no venv module: apt-get install $$($(PYTHON) -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"; exit 1; fi
	$(PYTHON) -m venv $(VENV)
	@touch $@

# The CPU build of torch has an index of its own; where that cannot be reached (a mirror), pip's own indices serve.
$(VENV)/.torch: constraints.txt | $(VENV)/.python
	@echo "PyTorch: $(TORCH) (choose with TORCH=cpu or TORCH=cuda)"
	@case "$(TORCH)" in \
	cuda) $(INSTALL) torch ;; \
	cpu) if $(BIN)/python -c 'import urllib.request; urllib.request.urlopen("$(TORCH_CPU_INDEX)/torch/", timeout=10)' 2>/dev/null; \
		then $(INSTALL) --no-deps --index-url $(TORCH_CPU_INDEX) torch; \
		else echo "$(TORCH_CPU_INDEX) cannot be reached: torch comes from pip's own indices"; \
			$(INSTALL) torch; fi ;; \
	*) echo "TORCH=$(TORCH)? It is cpu or cuda."; exit 1 ;; \
	esac
	@touch $@

$(VENV)/.installed: pyproject.toml constraints.txt $(VENV)/.torch
	$(INSTALL) -e .
	@touch $@

# What the arm's 1 kHz loop needs is compiled here, and not when an arm is started for the first time;
# `make --jobs 2` does it while the rest is installed.
$(VENV)/.law: $(VENV)/.installed
	@echo "Compiling the arm's control law, once: a minute, or some on a busy machine"
	@$(BIN)/python -c 'from robot_rl.controllers import warm_up; from robot_rl.controllers.arms import mujoco; warm_up.warm_up(7); mujoco.warm_up()'
	@touch $@

# All at once is quicker; where a device's package cannot be had, piece by piece.
$(VENV)/.installed-dev: pyproject.toml constraints.txt $(VENV)/.installed
	@$(INSTALL) --only-binary pylibfranka,pyrealsense2 \
		-e '.[dev,console,spacemouse,keyboard,gamepad,franka,realsense]' || $(MAKE) --no-print-directory piece-by-piece
	@touch $@
