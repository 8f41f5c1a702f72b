# SPDX-License-Identifier: Apache-2.0
#
# The short names for everyday work; CMake does the building, scripts/ the rest.
.PHONY: help run test fresh build bench bench-peers bench-builds fuzz soak format lint docs install clean
.DEFAULT_GOAL := help

PREFIX ?= /usr/local
TESTS ?=
FRESH ?=
FUZZ_SECONDS ?= 60
SEEDS ?= 100000
SOAK ?= $(if $(filter command line,$(origin SEEDS)),sim)

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 12

run: build ## install what is missing, build, start on 127.0.0.1:8000 with ./holdfast-data
	@exec build/holdfast serve

test: ## install what is missing, build, run every check (TESTS='NAME …' for some)
	@scripts/test $(TESTS)

fresh: ## `make run` and `make test` in a bare Debian 12 (FRESH='run', FRESH='test' TESTS='NAME …', KEEP=1 keeps it)
	@scripts/fresh $(if $(KEEP),--keep) $(if $(FRESH),$(FRESH),$(if $(TESTS),test)) -- $(TESTS)

build: ## build/holdfast, optimised and hardened
	@scripts/setup build
	@scripts/build release holdfast
	@ln -sfn release/holdfast build/holdfast

bench: ## run the benchmarks
	@scripts/setup bench
	@scripts/build release
	@for b in build/release/bench/bench_*; do [ ! -x "$$b" ] || { echo "== $$b"; "$$b" || exit; }; done
	@echo "== bench/http_ratios.sh"
	@bench/http_ratios.sh

bench-peers: ## compare with other queue servers (PEERS='holdfast redis' WORKS='W1 W2' ROUNDS=1 SECONDS=1)
	@scripts/setup peers
	@scripts/build release holdfast peerload peernull
	@node bench/peers/run.mjs --peers '$(PEERS)' --works '$(WORKS)' --rounds '$(ROUNDS)' --seconds '$(SECONDS)' \
	  --jobs '$(JOBS)' --dir '$(DIR)' --docs '$(DOCS)'

bench-builds: ## compare the build OLD=PATH with this one, by turns (WORKS='w1 w3' ROUNDS=9 SECONDS=2)
	@scripts/setup peers
	@scripts/build release holdfast peerload
	@node bench/builds.mjs '$(OLD)' build/release/holdfast --works '$(WORKS)' --rounds '$(ROUNDS)' --seconds '$(SECONDS)'

fuzz: ## fuzz each target for FUZZ_SECONDS (60) with libFuzzer
	@scripts/setup test
	@scripts/fuzz $(FUZZ_SECONDS)

soak: ## hours of simulation, kills, power cuts, failing calls (SOAK='sim kill power failpoint flips rows faults faults-pg faults-redis clients')
	@SEEDS=$(SEEDS) scripts/soak $(SOAK)

format: ## let clang-format rewrite the sources
	@scripts/setup test
	@scripts/sources src tests bench | xargs clang-format -i

lint: ## the checks that need no test run
	@scripts/test lint

docs: build ## write docs/reference from the tables of the program
	@for page in commands:commands config:settings events:events metrics:metrics policy:policy problems:problems reasons:reasons; do \
	  build/holdfast help "$${page%:*}" --markdown >"docs/reference/$${page#*:}.md" || exit; \
	done

install: build ## into PREFIX (/usr/local), below DESTDIR
	@DESTDIR="$(DESTDIR)" cmake --install build/release --prefix "$(PREFIX)"

clean: ## remove build/
	rm -rf build
