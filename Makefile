# Two commands do everything: `make demo` and `make test`. Both set up what they need in .venv.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-all lint docs picture bench fuzz wheelhouse lock licenses release clean

demo: .venv/demo.stamp
	$(BIN)/oneballot demo

test: lint
	$(BIN)/pytest -n 2 -m "not slow"

test-all: lint
	$(BIN)/pytest -n 2

lint: .venv/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The pages open from disk: site/index.html. `make test` runs the tests of the documentation.
docs: .venv/dev.stamp
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "Open site/index.html"

# The picture of the README, from the report of a new demo; its outline is tested.
picture: .venv/dev.stamp
	$(BIN)/python release/picture.py

bench: .venv/dev.stamp
	$(BIN)/python benchmarks/trees.py
	$(BIN)/python benchmarks/ballots.py
	$(BIN)/python benchmarks/accounts.py
	$(BIN)/python benchmarks/fleet.py
	$(BIN)/python benchmarks/privacy.py
	$(BIN)/python benchmarks/methods.py

SECONDS ?= 60

fuzz: .venv/dev.stamp
	$(BIN)/python -W ignore fuzz --seconds $(SECONDS)

# Wheels of OneBallot and its dependencies, for a machine without internet: the same system and Python version as here.
EXTRAS ?= report
WHEELHOUSE ?= wheelhouse
SELECTED := $(if $(EXTRAS),[$(EXTRAS)])

wheelhouse:
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check -c constraints.txt -w '$(WHEELHOUSE)' '.$(SELECTED)'
	@echo "Copy $(WHEELHOUSE)/ to the other machine, and install there without internet:"
	@echo "pip install --no-index --find-links $(WHEELHOUSE) 'oneballot$(SELECTED)'"

# The hashes of every dependency's files, for all systems; torch is left out, as its small build for CPUs has others.
lock: .venv/dev.stamp
	echo "torch ; python_version < '3'" > .venv/without-torch.txt
	$(BIN)/uv pip compile pyproject.toml --extra dev -c constraints.txt --override .venv/without-torch.txt --universal \
	  --python-version 3.11.5 --generate-hashes --no-header --no-annotate --quiet -o requirements.lock

licenses: .venv/dev.stamp
	$(BIN)/python release/dependencies.py

# dist/: wheel and source archive, built twice and compared; bill of materials, licences, SHA-256 sums.
release: .venv/dev.stamp
	$(BIN)/python release/build.py --out dist

# uv is quick, and verifies the hashes of requirements.lock. Where uv cannot be had, pip installs the same versions
# without hashes: it refuses to install the project itself beside packages with hashes. A hash mismatch stops both.
define install
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt uv || true
	@$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python -c constraints.txt -c requirements.lock \
	  -e '.[$(1)]' 2> .venv/install.log || { cat .venv/install.log; \
	  if grep -qi 'hash mismatch' .venv/install.log; then \
	    echo 'A package is not the one that was tested: see requirements.lock, and report this.'; exit 1; fi; \
	  echo 'Installing with pip, without hashes.'; \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[$(1)]'; }
	@touch $@
endef

.venv/demo.stamp: pyproject.toml constraints.txt requirements.lock
	$(call install,report)

# torch comes by pip, which finds its small build for CPUs where there is one.
.venv/dev.stamp: pyproject.toml constraints.txt requirements.lock
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(call install,dev)

clean:
	rm -rf .venv demo dist site wheelhouse .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
