# Run "make" or "make help" for what there is.
.DEFAULT_GOAL := help
SHELL := bash
# make 3.81, which macOS has, does not know these flags: recipes end at their first failure without -e too.
.SHELLFLAGS := -euo pipefail -c

GO ?= go
PKG ?= ./...
ARGS ?=
FUZZTIME ?= 10s
BENCHTIME ?= 1s
TIMEOUT ?= 30m
DURATION ?= 10m
COUNT ?= 20
JOBS ?= 4
ACTIONLINT := github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

# Packages whose tests need no server. For other systems only these are vetted with their tests.
SERVERLESS := ./backend ./memory ./file ./conformance

# test-race runs each store's main suite, and the fast tests of packages that are no store. It leaves out
# the command, and packages without concurrency. The longest suites come first.
RACE_STORES := ./sqltable/pgtable ./etcd ./zookeeper ./redis/redlock ./memcached ./redis ./postgres ./file ./pair
RACE_SUITES := ^TestConformance(3|FirstsNumbers)?$$
RACELESS := /(bench|cmd/anylock|internal/(declared|fencetest|guaranteestable|killtable|moduleroot|readme|servers))$$

# Folders with a module of their own, so that what they need is no need of the library's. They are tested with ./... only; of
# them the specimens alone with -race, which makes SQLite, C turned into Go, slower than the suite's patience on a busy machine.
MODULES := examples/sqlite examples/queue examples/fencing examples/balance fence/sqltest bench/peers conformance/specimens otel otel/prometheus \
	sqltable/sqlitetable sqltable/mysqltable adapters/gocron adapters/goose adapters/certmagic adapters/kubernetes
# Tested by test-docker alone.
CONTAINERS := conformance/containers
each_module = for module in $(MODULES); do echo "in $$module:"; (cd $$module && $(1)) || exit 1; done

.PHONY: help
help: ## Show this list
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "  PKG=./redis ARGS='-run Cluster -v' narrow test, test-all, quick and soak; STORES='redis etcd' those of steady and probe; COUNT=20 and JOBS=4 those of flakes; DURATION=10m, FUZZTIME=10s, BENCHTIME=1s and TIMEOUT=30m set how long"

# The packages of the fast tier wait for leases and servers more than they compute, so that there are more at a time than processors.
# "make lint" vets.
.PHONY: test
test: ## Install missing servers, then run the fast tests, on one real server of each kind; no server may be missing
	@scripts/install-servers redis etcd zookeeper memcached postgres pgbouncer
	ANYLOCK_TEST_REQUIRE=1 $(GO) test -vet=off -short -count=1 -p 4 -parallel 8 -timeout $(TIMEOUT) $(ARGS) \
		$(if $(filter ./...,$(PKG)),./zookeeper) $(PKG) && \
		echo "make test: the tests took $$SECONDS s"

.PHONY: test-time
test-time: ## Measure make test, with and without a build cache, and write it into docs/testing.md
	scripts/test-time

.PHONY: test-all
test-all: ## Run every test, the library's and the specimens' with the race detector: clusters, failovers, mutants and the modules beside the library too
	@scripts/install-servers
	-@scripts/redis-versions >/dev/null
	ANYLOCK_TEST_REQUIRE=1 $(GO) test -race -count=1 -timeout $(TIMEOUT) $(ARGS) $(PKG)
	$(if $(filter ./...,$(PKG)),ANYLOCK_TEST_REQUIRE=1 $(GO) test -count=1 -run '^TestNewLeaderEndsNoneOfMany$$|ComparedWithMutex$$' ./etcd)
	$(if $(filter ./...,$(PKG)),$(call each_module,ANYLOCK_TEST_REQUIRE=1 $(GO) test $$([ $$module != conformance/specimens ] || echo -race) \
		-count=1 -timeout $(TIMEOUT) $(ARGS) ./...))

# The race detector multiplies the processor time of a test, so that fewer tests run at a time than in "make test".
race = ANYLOCK_TEST_REQUIRE=1 $(GO) test -vet=off -race -short -count=1 -p 3 -parallel 8 -timeout $(TIMEOUT) $(ARGS)

.PHONY: test-race
test-race: ## Run each store's main suite, and the fast tests of packages that are no store, with the race detector
	@scripts/install-servers redis etcd zookeeper memcached postgres
ifeq ($(PKG),./...)
	ANYLOCK_CONFORMANCE_FULL=1 $(race) -run '$(RACE_SUITES)' $(RACE_STORES)
	$(race) $$($(GO) list ./... | grep -vxFf <($(GO) list $(RACE_STORES)) | grep -vE '$(RACELESS)')
else
	$(race) $(PKG)
endif

.PHONY: test-modules
test-modules: ## Run the fast tests of the modules beside the library, three modules at a time
	@scripts/install-servers redis etcd zookeeper memcached postgres pgbouncer chromium mariadb
	@printf '%s\n' $(MODULES) | ANYLOCK_TEST_REQUIRE=1 xargs -P 3 -I{} sh -c 'out=$$(cd "$$0" && \
		$(GO) test -vet=off -short -count=1 -timeout $(TIMEOUT) "$$@" ./... 2>&1); status=$$?; printf "in %s:\n%s\n" "$$0" "$$out"; exit $$status' {} $(ARGS)

.PHONY: flakes
flakes: ## Run each package's fast tests COUNT times, JOBS packages at a time, and list the failures with their seeds
	@scripts/install-servers
	GO="$(GO)" $(if $(ARGS),ARGS="$(ARGS)") COUNT="$(COUNT)" JOBS="$(JOBS)" scripts/flakes $(filter-out ./...,$(PKG))

.PHONY: soak
soak: ## Run histories and storms on all stores with fresh seeds for DURATION; ends at the first failure, and prints its seed
	@scripts/install-servers
	-@scripts/redis-versions >/dev/null
	GO="$(GO)" DURATION="$(DURATION)" ARGS="$(ARGS)" scripts/soak $(filter-out ./...,$(PKG))

.PHONY: serve-load
serve-load: ## Load two servers of "anylock serve" with 1000 clients for DURATION, and kill and freeze them and their Redis
	@scripts/install-servers redis
	ANYLOCK_TEST_REQUIRE=1 ANYLOCK_SERVE_LOAD=$(DURATION) $(GO) test -count=1 -v -run '^TestServeUnderLoad$$' -timeout 25h ./cmd/anylock

.PHONY: probe
probe: ## Run readers and writers in processes that are killed, stopped and cut off, for DURATION on each store of STORES
	@scripts/install-servers redis etcd zookeeper postgres
	ANYLOCK_TEST_REQUIRE=1 ANYLOCK_PROBE_DURATION=$(DURATION) $(GO) test -tags probe -count=1 -timeout 0 -v $(ARGS) \
		-run '^TestProbe$(if $(STORES),$$/^($(subst $() ,|,$(strip $(STORES))))$$)' ./internal/probe

.PHONY: steady
steady: ## Run the suite on correct stores: ROUNDS times by the command on stock servers, ROUNDS2 times on a busy machine; hours
	@scripts/install-servers
	GO="$(GO)" scripts/steady $(STORES)

.PHONY: quick
quick: ## Run the tests with the servers that happen to be there
	$(GO) test -timeout $(TIMEOUT) $(ARGS) $(PKG)
	$(if $(filter ./...,$(PKG)),$(call each_module,$(GO) test -timeout $(TIMEOUT) $(ARGS) ./...))

.PHONY: test-docker
test-docker: ## Run the suite on the official image of each server; without Docker, install and start one
	GO="$(GO)" ARGS="$(ARGS)" scripts/test-docker

# The second build, of the same commit, must give the same bytes.
.PHONY: release-dry-run
release-dry-run: export COMMIT := $(shell git rev-parse HEAD)
release-dry-run: ## Build a release in dist, build a part again to compare, and install the .deb in a Debian without Go, with a real cron
	scripts/release 0.0.0-dry dist
	TARGETS=linux/amd64 scripts/release 0.0.0-dry dist/again
	cd dist/again && for file in *amd64* *x86_64*; do cmp $$file ../$$file || exit 1; done
	rm -r dist/again
	scripts/release-test dist

.PHONY: lint
lint: ## Check format, go.mod, vet, the builds for macOS and Windows, staticcheck, and the workflows of GitHub
	@out=$$("$$($(GO) env GOROOT)/bin/gofmt" -l .); \
		if [ -n "$$out" ]; then echo "run gofmt -w on:"; echo "$$out"; exit 1; fi
	@GO="$(GO)" scripts/tidy
	$(GO) vet ./...
	for os in darwin windows; do \
		GOOS=$$os $(GO) build $$($(GO) list ./... | grep -v /internal/servers) && GOOS=$$os $(GO) vet $(SERVERLESS) || exit 1; \
	done
	$(GO) run $(ACTIONLINT)
	$(GO) run $(STATICCHECK) ./...
	@printf '%s\n' $(MODULES) $(CONTAINERS) | xargs -P 3 -I{} sh -c 'out=$$(cd "$$0" && { \
		GO="$(GO)" $(CURDIR)/scripts/tidy && $(GO) vet ./... && $(GO) run $(STATICCHECK) ./...; } 2>&1) || { \
		printf "in %s:\n%s\n" "$$0" "$$out"; exit 1; }' {}

.PHONY: vulnerabilities
vulnerabilities: ## Check that no module calls code with a known vulnerability
	$(GO) run $(GOVULNCHECK) ./...
	$(call each_module,$(GO) run $(GOVULNCHECK) ./...)

.PHONY: fuzz
fuzz: ## Fuzz every fuzz test for FUZZTIME
	@for pkg in $$($(GO) list $(PKG)); do \
		for name in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "fuzz $$pkg $$name"; \
			$(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) $$pkg || exit 1; \
		done; \
	done

.PHONY: bench
bench: ## Run every benchmark
	$(GO) test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) $(PKG)

.PHONY: bench-once
bench-once: ## Run every benchmark once, to see that it runs
	$(GO) test -run '^$$' -bench . -benchtime 1x -timeout $(TIMEOUT) $(PKG)

.PHONY: bench-peers
bench-peers: ## Measure other libraries beside ours for a quarter of an hour, and write docs/benchmarks.md
	scripts/install-servers redis etcd zookeeper postgres
	cd bench/peers && ANYLOCK_BENCH_PEERS=all $(GO) test -tags measure -run '^TestMeasure$$' -count=1 -timeout 2h -v .

.PHONY: cover
cover: ## Show how much of the code the tests reach
	$(GO) test -coverpkg=./... -coverprofile=coverage.out $(PKG)
	$(GO) tool cover -func=coverage.out | tail -n 1

.PHONY: build
build: ## Build the command into bin/anylock
	$(GO) build -trimpath -o bin/anylock ./cmd/anylock

.PHONY: docs
docs: ## Write the generated parts of README.md and docs/
	$(GO) run ./internal/killtable
	$(GO) run ./internal/readme

.PHONY: size
size: ## Count the lines of code of each part, and write the table into docs/ARCHITECTURE.md
	scripts/size

.PHONY: evidence
evidence: ## Record what the suite finds in mutants and specimens, and write docs/evidence and the core of the suite; FRESH=1 tries all mutants again
	$(if $(FRESH),rm -f conformance/testdata/matrix.tsv)
	ANYLOCK_UPDATE=1 $(GO) test -count=1 -timeout 0 -run 'MutantsRecord|MatrixRecord' ./conformance
	$(GO) run ./internal/killtable
	cd conformance/specimens && ANYLOCK_TEST_REQUIRE=1 ANYLOCK_UPDATE=1 $(GO) test -count=1 -p 1 -timeout $(TIMEOUT) -run Specimens ./...
	$(GO) run ./internal/killtable

.PHONY: costly
costly: ## Measure the processor time of each check, and write the list of the checks that the core leaves out with -short
	$(GO) run ./internal/costly etcd zookeeper postgres

.PHONY: test-terraform
test-terraform: ## Lock states for a real terraform or tofu, which must be installed; its recorded requests are tested by "make test"
	$(GO) test -count=1 -tags terraform -run '^TestTerraform$$' ./cmd/anylock

.PHONY: twins
twins: ## Run the whole suite on the specimens' twins
	cd conformance/specimens && ANYLOCK_TEST_REQUIRE=1 ANYLOCK_TWINS=1 $(GO) test -count=1 -p 1 -timeout $(TIMEOUT) -run Specimens $(ARGS) ./...
