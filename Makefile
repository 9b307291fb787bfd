# Garboard. `make up` and `make test` need Go and make, nothing else.
SHELL       := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

# The Kubernetes release whose API Garboard serves; kubectl is stamped with it.
KUBERNETES  := $(shell go list -m -f '{{.Version}}' k8s.io/api | sed 's/^v0\./v1./')
VERSION     := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
STAMP       := k8s.io/component-base/version
LDFLAGS     := -s -w -X main.version=$(VERSION) \
               -X $(STAMP).gitVersion=$(KUBERNETES) -X $(STAMP).gitMajor=1 -X $(STAMP).gitMinor=$(word 2,$(subst ., ,$(KUBERNETES))) \
               -X $(STAMP).gitTreeState=clean
GOBUILD     := go build -ldflags '$(LDFLAGS)'
COMMANDS    := apiserver controllers scheduler nodeagent
LINT        := go tool -modfile=tools/go.mod golangci-lint
FUZZTIME    ?= 10m
SEEDS       ?= 2000
PODS        ?= 1000
FAULTS      ?= all
PACKAGES    ?= bench cmd libs services test
# The tests of the whole plane are those of `make e2e`.
TESTS       ?= $(shell go list ./... | grep -v '/test/e2e$$')

# Only the race detector needs cgo; the released programs are built without it. With the same setting,
# tests reuse the packages that were compiled for the programs. Failed tests are never rerun: a failure
# is a bug, in the test or in the product.
export CGO_ENABLED := 0
RUNTESTS = go run ./test/run

.PHONY: help up build test check current e2e fuzz pods-test simulate chaos chaos-fabric chaos-short outage outage-short upstream upstream-controllers upstream-crd upstream-dns upstream-swap images compose-test conformance operators bench bench-apiserver bench-controllers bench-controllers-hostile bench-custom bench-hostile bench-fabric bench-memory bench-streams bench-services bench-dns generate lint arch clean

help: ## List the commands.
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## /  make \1\t/' | expand -t 20

up: bin/garboard ## Start the whole plane in this terminal. UP_FLAGS adds flags.
	@exec bin/garboard up $(UP_FLAGS)

build: bin/garboard $(COMMANDS:%=bin/%) ## Build every command into bin/.

# Always run the go tool, which knows what is up to date. The first build compiles about 1,200
# packages, so the recipe reports its progress.
.PHONY: bin/garboard $(COMMANDS:%=bin/%)
bin/garboard $(COMMANDS:%=bin/%): bin/%:
	@mkdir -p bin
	@[ -t 2 ] && every=1 end='\r' || every=200 end='\n'; \
	$(GOBUILD) -v -o $@ ./cmd/$* 2>&1 | awk -v name=$@ -v every=$$every -v end="$$end" \
		-v total=$$(go list -deps ./cmd/$* | wc -l) ' \
		/^[a-z0-9._\/-]+(\/[^ :]*)?$$/ { if (++n % every == 0) printf "building %s: %d of at most %d packages" end, name, n, total; next } \
		{ print } \
		END { if (n) print "" }' >&2

# Tests that run real containers are skipped unless the environment asks for them.
test: export GARBOARD_REQUIRE_CONTAINERS ?= 0
test: bin/garboard ## Run every package's tests; `make e2e` tries the whole plane. TESTS narrows them; RACE=1 adds the race detector.
	@GARBOARD_BINARY=$(CURDIR)/bin/garboard $(RUNTESTS) $(if $(RACE),-race) $(TESTS)

check: ## Check generated code, and run lint (which includes vet) and arch.
	@$(MAKE) --no-print-directory current lint arch

current: ## Check that generated code and all go.mod files are up to date.
	@$(MAKE) --no-print-directory generate
	@git diff --exit-code -- '*.pb.go' '*zz_generated*' docs/reference/kinds.md 'docs/diagrams/*.svg' helm/garboard/README.md helm/garboard/values.schema.json helm/garboard/files compose/grafana/dashboards || { echo 'generated code is stale: commit what make generate wrote'; exit 1; }
	@for module in $$(git ls-files 'test/**/go.mod' 'tools/**/go.mod'); do \
		(cd $${module%/*} && go list -test ./... >/dev/null) || { echo "$$module is stale: run go mod tidy there"; exit 1; }; done

lint: ## Run the linters.
	$(LINT) run --allow-parallel-runners --timeout 1h ./...

arch: ## Check the rules on imports, sizes and names.
	go test -count=1 ./test/arch

generate: ## Regenerate code, documentation tables and dashboards.
	go run ./proto/internal/generate proto watch/v1/watch.proto watch/v1/history.proto
	go generate ./services/apiserver/internal/http/openapi/...
	go run ./services/apiserver/internal/kinds/kindsdoc docs/reference/kinds.md
	go run ./compose/grafana/generate compose/grafana/dashboards
	go run ./helm/generate helm/garboard compose
	go run ./docs/diagrams/draw docs/diagrams

e2e: bin/garboard ## Run the tests with real containers; needs root, containerd, runc and CNI plugins.
	GARBOARD_BINARY=$(CURDIR)/bin/garboard GARBOARD_REQUIRE_CONTAINERS=1 $(RUNTESTS) -tags containers -count 1 -timeout 40m ./test/containers/... ./test/e2e/... ./test/observability

# The go tool also fails a run whose last input was interrupted by the end of FUZZTIME; only a saved
# failing input is a finding.
fuzz: ## Run every fuzz target in sequence, each for FUZZTIME. PACKAGES narrows them.
	@failed=; log=$$(mktemp); trap 'rm -f "$$log"' EXIT; \
	for file in $$(grep -lE '^func Fuzz' -r $(PACKAGES) --include='*_test.go' | sort); do \
		for target in $$(grep -hoE '^func Fuzz[A-Za-z0-9_]+' $$file | sed 's/func //'); do \
			echo "== $$(dirname $$file) $$target ($(FUZZTIME))"; \
			go test ./$$(dirname $$file) -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) 2>&1 | tee "$$log" || \
				{ grep -q 'context deadline exceeded' "$$log" && ! grep -q 'Failing input' "$$log"; } || failed="$$failed $$target"; \
		done; \
	done; [ -z "$$failed" ] || { echo "failed:$$failed"; exit 1; }

pods-test: ## Churn a thousand pods, and inject every fault at every runtime call; root adds containerd. PODS, FAULTS and SEED narrow it.
	GARBOARD_PODS=$(PODS) GARBOARD_POD_FAULTS=$(FAULTS) GARBOARD_SEED=$(SEED) \
		go test $(TESTFLAGS) -count=1 -v -timeout 120m -run '^(TestPodsComeAndGo|TestFaultPoints)$$' ./services/nodeagent/internal/agent

simulate: ## Simulate the watch fabric under all faults, with SEEDS seeds.
	go test -count=1 -timeout 1h ./services/apiserver/internal/test/simulation -seeds $(SEEDS)

# The modules below test/upstream, each with the folder of its service that receives test data.
UPSTREAM := apiserver=services/apiserver/internal/kinds/conformance scheduler=services/scheduler/internal/conformance nodeagent=services/nodeagent/internal/runtime/conformance
upstream: SEEDS = 4
upstream: ## Compare the services with Kubernetes' own code, with SEEDS random walks from SEED on; without SEED also save test data.
	@mkdir -p bin
	@failed=; for module in $(UPSTREAM); do \
		name=$${module%%=*} data=$(CURDIR)/$${module#*=}/testdata; echo "== $$name"; \
		(cd test/upstream/$$name && go test -count=1 -timeout 3h . -seeds $(SEEDS) -report $(CURDIR)/bin/upstream-$$name.txt \
			$(if $(SEED),-seed $(SEED),-vectors $$data)) || failed="$$failed $$name"; \
	done; echo "== controllers"; $(MAKE) --no-print-directory upstream-controllers || failed="$$failed controllers"; \
	echo "== customresources"; $(MAKE) --no-print-directory upstream-crd || failed="$$failed customresources"; \
	echo "== swap"; $(MAKE) --no-print-directory upstream-swap || failed="$$failed swap"; \
	echo "== dns"; $(MAKE) --no-print-directory upstream-dns || failed="$$failed dns"; \
	[ -z "$$failed" ] || { echo "failed:$$failed"; exit 1; }

upstream-controllers: ## Compare what our controllers and kube-controller-manager write. ONLY=REGEX selects scripts.
	@mkdir -p bin
	cd test/upstream/controllers && go test -count=1 -v -timeout 1h -parallel 8 $(if $(ONLY),-run 'TestDifferential/.*/$(ONLY)') \
		. -report $(CURDIR)/bin/upstream-controllers.txt

upstream-crd: ## Run Kubernetes' own integration tests of custom resources. ONLY=REGEX selects some.
	@mkdir -p bin
	cd test/upstream/customresources && go test -count=1 -v -timeout 2h . -report $(CURDIR)/bin/upstream-customresources.txt \
		$(if $(ONLY),-only '$(ONLY)')

upstream-swap: ## Let kube-apiserver and ours take turns on one etcd, in both directions.
	@mkdir -p bin
	cd test/upstream/swap && go test -count=1 -v -timeout 30m .

upstream-dns: ## Ask CoreDNS and our DNS server the same questions.
	cd test/upstream/dns && go test -count=1 -v -timeout 30m .

CHAOS_FLAGS ?= -long -for 30m
OUTAGE_FLAGS ?= -times 5
chaos: chaos-fabric outage ## Run the long fault tests of the watch fabric and of the plane in containers; takes hours.

chaos-fabric: ## Inject faults into the watch fabric's processes. CHAOS_FLAGS='-for 2h -seed 7' sets duration and seed.
	@mkdir -p bin/chaos
	go run ./test/chaos -binaries bin/chaos -table bin/chaos.md $(CHAOS_FLAGS)

chaos-short: ## Inject every fault once, for the shortest useful time.
	@$(MAKE) --no-print-directory chaos-fabric CHAOS_FLAGS=

outage: bin/garboard images ## Inject faults into the plane in containers; needs Docker and root. OUTAGE_FLAGS='-times 1 -only etcd' narrows them.
	go run ./test/outage -version $(VERSION) -table bin/outage.md $(OUTAGE_FLAGS)
	go run ./test/outage -version $(VERSION) -table bin/outage-ha.md -ha $(OUTAGE_FLAGS)

outage-short: bin/garboard images ## Inject each of the most important faults once.
	go run ./test/outage -version $(VERSION) -short -times 1 -nodes 100

# The compose file lists the targets of the Dockerfile, so there is a single list. The sizes printed are
# the uncompressed contents of an image.
IMAGES := apiserver controllers scheduler nodeagent cli
images: ## Build the container images of the services; needs Docker (BuildKit).
	GARBOARD_VERSION=$(VERSION) GARBOARD_REVISION=$$(git rev-parse HEAD 2>/dev/null || echo unknown) docker compose -f compose/compose.yaml build
	@for name in $(IMAGES); do \
		docker image inspect --format '{{index .RepoTags 0}} {{.Size}}' garboard/$$name:$(VERSION) | awk '{ printf "%-40s %4d MB\n", $$1, $$2 / 1e6 }'; \
	done

compose-test: bin/garboard images ## Scale the plane in containers under load; needs Docker Compose. Without Docker: go run ./test/compose/machine run make compose-test.
	GARBOARD_BINARY=$(CURDIR)/bin/garboard GARBOARD_VERSION=$(VERSION) GARBOARD_REQUIRE_COMPOSE=1 go test -tags compose -count=1 -timeout 45m -v ./test/compose

# A KUBECONFIG from the environment is ignored: specs change a cluster.
JUDGED = $(if $(findstring command,$(origin KUBECONFIG)),$(KUBECONFIG))
conformance: bin/garboard $(if $(CONTAINERS),bin/nodeagent) ## Run Kubernetes' conformance specs: CLASS=A,B or FOCUS='regexp'; against a new plane (UP_FLAGS; CONTAINERS=1 runs containers), or KUBECONFIG=file.
	cd test/conformance/suite && go test .
	go run ./test/conformance -class "$${CLASS:-}" -focus "$${FOCUS:-}" $(if $(JUDGED),-kubeconfig '$(JUDGED)',-up-flags '$(UP_FLAGS)' $(if $(CONTAINERS),-containers)) $(CONFORMANCE_FLAGS)

operators: bin/garboard ## Run operators that others wrote on the plane's services as processes. ONLY='SampleController|SiteOperator' selects some.
	GARBOARD_BINARY=$(CURDIR)/bin/garboard go test -tags operators -count=1 -v -timeout 2h $(if $(ONLY),-run '$(ONLY)') ./test/operators

bench: ## Run the benchmarks ten times each, for benchstat.
	go test -run '^$$' -bench . -benchmem -count 10 ./bench/... ./libs/... ./services/...

bench-apiserver: ## Measure CPU and memory of an apiserver and its etcd; -kubeconfig in BENCH_FLAGS measures another one.
	go run ./bench/apiserver $(BENCH_FLAGS)

bench-custom: bin/kube-apiserver ## Compare custom resources, definitions and policies with a kube-apiserver beside ours.
	go run ./bench/apiserver -kubernetes bin/kube-apiserver -parts custom,definitions,policies -watchers 100 $(BENCH_FLAGS)

# Kubernetes' own apiserver, at the version that the conformance suite's module requires.
bin/kube-apiserver: test/conformance/suite/go.mod
	@mkdir -p bin
	cd test/conformance/suite && version=$$(go list -m -f '{{.Version}}' k8s.io/kubernetes) && \
		CGO_ENABLED=0 go build -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$$version" \
			-o $(CURDIR)/$@ k8s.io/kubernetes/cmd/kube-apiserver

bench-hostile: bin/kube-apiserver ## Time requests while others send hostile ones, with a kube-apiserver beside ours.
	go run ./bench/apiserver -kubernetes bin/kube-apiserver -parts hostile -repeats 3 $(BENCH_FLAGS)

bench-controllers: ## Measure our controllers and kube-controller-manager under the same loads. LOAD=N pods, 1000 by default; ONLY=job,garbage and SIDE=garboard select; ROUNDS=N repeats.
	@mkdir -p bin
	cd test/upstream/controllers && go test -count=1 -v -timeout 2h -run TestLoad . -load $(or $(LOAD),1000) -loads '$(ONLY)' -side "$(SIDE)" -rounds $(or $(ROUNDS),1) -report $(CURDIR)/bin/bench-controllers.txt

bench-controllers-hostile: ## Time new ReplicaSets beside hostile objects, and count what the controllers write about these. PROBES=N, 100 by default.
	cd test/upstream/controllers && go test -count=1 -v -timeout 1h -run TestHostile . -probes $(or $(PROBES),100)

bench-fabric: ## Measure the watch fabric's hops, fan-out, starts and restarts. BENCH_FLAGS='-parts hops' narrows it.
	go run ./bench/fabric $(BENCH_FLAGS)

bench-streams: bin/garboard bin/kubelet ## Measure exec, copies, forwarded ports and followed logs, beside a kubelet and containerd's own server. Needs root and containerd. APART=1 gives the node agent a process of its own, APART=each every service.
	GARBOARD_APART=$(APART) GARBOARD_BINARY=$(CURDIR)/bin/garboard GARBOARD_KUBELET=$(CURDIR)/bin/kubelet GARBOARD_REQUIRE_CONTAINERS=1 \
		go test -tags containers -run '^$$' -bench $(or $(ONLY),.) -benchtime 1x -count $(or $(REPEATS),3) -timeout 2h ./bench/streams

bench-memory: ## Measure the idle memory of `garboard up`, fresh and after use. BENCH_FLAGS='-profiles DIR' saves profiles.
	go run ./bench/memory $(BENCH_FLAGS)

bench-services: bin/kube-proxy ## Measure what leads traffic to Services, beside kube-proxy, with 1,000 and 10,000 Services. Needs root, containerd and nft.
	go run ./bench/services -kube-proxy bin/kube-proxy -services 1000,10000 $(BENCH_FLAGS)

bin/kube-proxy bin/kubelet: bin/%: test/conformance/suite/go.mod
	@mkdir -p bin
	cd test/conformance/suite && version=$$(go list -m -f '{{.Version}}' k8s.io/kubernetes) && \
		go build -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$$version" -o $(CURDIR)/$@ k8s.io/kubernetes/cmd/$*

bench-dns: bin/coredns ## Measure the node's DNS server, beside CoreDNS. Needs root and containerd.
	go run ./bench/dns -coredns bin/coredns $(BENCH_FLAGS)

# CoreDNS, at the version that the module requires with which ours is compared.
bin/coredns: test/upstream/dns/go.mod
	@mkdir -p bin
	cd test/upstream/dns && go build -ldflags '-s -w' -o $(CURDIR)/$@ ./coredns

clean: ## Remove build output.
	rm -rf bin
