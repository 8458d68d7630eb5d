# make        build everything into .venv
# make demo   the main job on a bundled network
# make test   all tests, with the emulator and the cross compiler
# make check  tests, lint, types and docs drift: what continuous integration runs

PYTHON ?= python3
BIN := .venv/bin
NATIVE := $(shell find runtime native -name '*.[ch]' -o -name '*.cpp') CMakeLists.txt pyproject.toml

.PHONY: all setup system demo test check lint types docs clean

all: setup

system:
	@sh scripts/system-packages.sh

$(BIN)/python:
	@sh scripts/system-packages.sh
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip

.stamp-setup: $(BIN)/python $(NATIVE)
	$(BIN)/python -m pip install --quiet --editable '.[ref,keras,test,dev]'
	@touch $@

setup: .stamp-setup

demo: setup
	$(BIN)/npuforge deploy examples/visual_wake_words/visual_wake_words.tflite \
	  --target stm32n6570-dk --valinput examples/visual_wake_words/person.png \
	  --output out/demo --force
	@echo
	$(BIN)/npuforge run examples/visual_wake_words/visual_wake_words.tflite \
	  --input examples/visual_wake_words/person.png
	@echo 'Index 0 is "person". The bundle is in out/demo: open out/demo/report.html'

test: system setup
	$(BIN)/python -m pytest -n auto

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

docs: setup
	$(BIN)/python -m npuforge.cli.reference docs/reference

check: lint types
	$(BIN)/python -m npuforge.cli.reference docs/reference --check
	$(MAKE) test

clean:
	rm -rf .venv build out .stamp-setup
