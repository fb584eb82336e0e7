# On a fresh machine, two commands are enough: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test fuzz check bench docs clean chromium axe

# Reinstalled only when the dependencies change.
$(READY): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: $(READY)
	$(BIN)/hitnet train --epochs 6 --out runs/demo --overwrite
	@echo "Prototypes:   runs/demo/mnist-mini/hitnet-fast-s0/plots/prototypes.png"
	@echo "Explore:      $(BIN)/hitnet explore runs/demo/mnist-mini/hitnet-fast-s0"
	@echo "Your images:  $(BIN)/hitnet train --data FOLDER-OF-CLASS-FOLDERS --image-size 32"

test: $(READY) chromium axe
	$(BIN)/python -m pytest -n 2

# The browser tests need Chromium. It is installed if that is allowed; otherwise those tests are skipped with a reason.
chromium:
	@command -v chromium >/dev/null || { S=$$(test "$$(id -u)" = 0 || echo sudo -n); \
	$$S apt-get update -qq && $$S apt-get install -y -qq --no-install-recommends chromium; } >/dev/null 2>&1 || true

# The rules that the tests of the page's accessibility apply; without npm those tests are skipped with a reason.
AXE := axe-core@4.14.0
axe:
	@test -f .npm/node_modules/axe-core/axe.min.js || \
	npm install --silent --no-save --no-package-lock --prefix .npm $(AXE) >/dev/null 2>&1 || true

# 100,000 damaged files; `make test` tries some of them.
fuzz: $(READY)
	$(BIN)/python tests/support/fuzz.py 100000

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY)
	$(BIN)/python scripts/speed.py

docs: $(READY)
	$(BIN)/mkdocs build --strict

clean:
	rm -rf .venv .npm .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis site
