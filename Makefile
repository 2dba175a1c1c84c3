# The commands for working on the project, which `make help` lists; the build rules are in CMakeLists.txt.
# SPDX-License-Identifier: Apache-2.0

PREFIX ?= /usr/local
# Seconds that `make fuzz` spends on each target.
T ?= 60
# SEEDS: how many simulated clusters `make sim` runs; FROM: the first seed.
SEEDS ?= 100000
# How often `make stress` runs each test with threads, in each build.
R ?= 20
FROM ?= 1
JOBS := $(shell nproc)

# Under ASan variables, with their padding, are filled with a pattern: code that reads a variable before it is set, or
# the bytes between members, then fails always, not by chance.
ASAN := -DCMAKE_BUILD_TYPE=Debug \
	-DCMAKE_C_FLAGS_DEBUG="-O1 -g1 -ftrivial-auto-var-init=pattern" \
	-DTUG_SANITIZE=address,undefined
TSAN := -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG="-O1 -g1" -DTUG_SANITIZE=thread
# Without a pattern, so that valgrind sees which variables were never set.
PLAIN := -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG="-O1 -g"
MEMCHECK := valgrind;-q;--error-exitcode=99;--leak-check=full;--show-leak-kinds=definite;$\
	--errors-for-leak-kinds=definite;--num-callers=25;--fair-sched=yes
MSAN := -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=Debug -DTUG_SANITIZE=memory \
	-DCMAKE_C_FLAGS_DEBUG="-O1 -g1 -fsanitize-memory-track-origins" -DTUG_WERROR=OFF
# MemorySanitizer takes memory that other libraries write for unset. So only parts that hardly use libraries are tested,
# without the tests that read YAML, use up the sanitizer's memory, or have rows in RocksDB.
MSAN_PARTS := base os options kernels rule table accessor store wire model
MSAN_NOT := ^(options/options|os/team|store/cold)$$
MSAN_TARGETS = $(foreach p,$(MSAN_PARTS),\
	$(patsubst src/$(p)/%_test.c,test_$(p)_%,$(wildcard src/$(p)/*_test.c)))
space := $(subst ,, )
CTEST := ctest --output-on-failure --no-tests=error -j $(JOBS)
SUITE := tools/suite --jobs $(JOBS) $(if $(STRICT),--strict)

.PHONY: build help deps demo test check tidy asan asan-tests asan-python tsan msan valgrind stress bench fuzz sim format install clean
.DEFAULT_GOAL := build

build: ## build/tug, build/libtug.so, build/libtug.a, Python's package (the default)
	@cmake -G Ninja -S . -B build --log-level=WARNING
	@cmake --build build

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

deps: ## install missing packages that the build and the tests need
	@tools/deps

demo: ## make a million clicks, train on them, and show the AUC
	@tools/deps --build
	@cmake -G Ninja -S . -B build --log-level=WARNING
	@cmake --build build --target tug
	@tools/demo

# STRICT=1 makes a skip that tests/skips does not list a failure. The builds run one after the other, so that the
# summary of both comes last.
test: deps ## check, then all tests, with sanitizers and in the release build
	@$(MAKE) --no-print-directory check
	@$(MAKE) --no-print-directory asan-tests
	@cmake --build build --target all unit_tests fuzz_tests e2e_tests
	@$(SUITE) 'build-asan:unit|fuzz' build

check: build ## format, banned functions, includes, symbols, shape
	@tools/check --build build

tidy: build ## clang-tidy (tools/deps --dev installs it)
	@run-clang-tidy -quiet -p build -extra-arg=-Wno-unknown-warning-option '/src/.*\.c$$'

asan: asan-tests ## the unit and fuzz tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@$(SUITE) 'build-asan:unit|fuzz'

asan-tests:
	@cmake -G Ninja -S . -B build-asan --log-level=WARNING $(ASAN)
	@cmake --build build-asan --target unit_tests fuzz_tests

# The tests run under an ordinary Python, so leaks are not checked. Tests that limit memory or build wheels are left
# out.
ASAN_PYTHON := arrays disk fleet fleet_others frames interrupt kvstore kvstore_cluster life model model_cluster same_bits \
	scorer sklearn table torch wrapper
asan-python: ## Python's tests with a libtug built for ASan and UBSan
	@cmake -G Ninja -S . -B build-asan --log-level=WARNING $(ASAN)
	@cmake --build build-asan --target tug tug_shared tug_python
	@cd build-asan/python && LD_PRELOAD="$$(cc -print-file-name=libasan.so) $$(cc -print-file-name=libubsan.so)" \
		ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0 TUG_BINARY=$(CURDIR)/build-asan/tug PATH="$(CURDIR)/build-asan:$$PATH" \
		PYTHONPATH="$(CURDIR)/build-asan/python" $${PYTHON:-/usr/bin/python3} -m pytest -q -s -p no:cacheprovider $(ASAN_PYTHON:%=$(CURDIR)/python/tests/test_%.py)

tsan: ## the unit tests under ThreadSanitizer
	@cmake -G Ninja -S . -B build-tsan --log-level=WARNING $(TSAN)
	@cmake --build build-tsan --target unit_tests
	@$(CTEST) --test-dir build-tsan --label-regex unit

msan: ## unit tests under MemorySanitizer (clang; tools/deps --dev)
	@cmake -G Ninja -S . -B build-msan --log-level=WARNING $(MSAN)
	@cmake --build build-msan --target $(MSAN_TARGETS)
	@$(CTEST) --test-dir build-msan -R '^($(subst $(space),|,$(MSAN_PARTS)))/' -E '$(MSAN_NOT)'

valgrind: ## the unit tests under valgrind's memcheck (tools/deps --dev); takes an hour
	@cmake -G Ninja -S . -B build-valgrind --log-level=WARNING $(PLAIN) -DTUG_UNDER="$(MEMCHECK)"
	@cmake --build build-valgrind --target unit_tests
	@$(CTEST) --test-dir build-valgrind --label-regex unit

stress: asan-tests ## R=20 runs of each test with threads, which start in another order each time, in both builds
	@cmake -G Ninja -S . -B build --log-level=WARNING
	@cmake --build build --target unit_tests
	@tools/stress build-asan $(R)
	@tools/stress build $(R)

bench: build ## run measurements that the docs quote
	@cmake --build build --target benches
	@tools/bench

fuzz: ## T=60 seconds of libFuzzer on each target (clang; tools/deps --dev)
	@tools/fuzz $(T)

sim: ## run SEEDS=100000 simulated clusters, from seed FROM=1 on; prints a failing seed
	@cmake -G Ninja -S . -B build --log-level=WARNING
	@cmake --build build --target test_sim_cluster test_sim_barriers test_sim_collects test_sim_batches
	@build/tests/sim/test_sim_cluster --seeds $(SEEDS) --from $(FROM)
	@build/tests/sim/test_sim_barriers --seeds $(SEEDS) --from $(FROM)
	@build/tests/sim/test_sim_collects --seeds $(SEEDS) --from $(FROM)
	@build/tests/sim/test_sim_batches --seeds $(SEEDS) --from $(FROM)
	@build/tests/sim/test_sim_cluster --state --seeds $(SEEDS) --from $(FROM)

format: ## put all C files into the format of .clang-format, and wrap comments that are too wide
	@find bench include src tests -name '*.[ch]' -exec tools/wrap {} + -exec clang-format -i {} +

install: build ## PREFIX=/usr/local: command, libraries, headers, pkg-config and CMake files
	@cmake --install build --prefix '$(PREFIX)'

clean: ## remove everything that was built, and the data of the demo
	@rm -rf build build-asan build-tsan build-valgrind build-msan build-fuzz demo
