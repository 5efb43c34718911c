# Slipway: `make help` lists the targets.
SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

ROOT := $(CURDIR)
BIN  := $(ROOT)/bin
# a semantic version: clusterctl reads it from the Provider object
VERSION ?= $(shell git describe --tags --match 'v*' --dirty 2>/dev/null || echo v0.1.0-dev)

# $(call fetch,arguments of go list): downloads the modules that packages need, and tries again when
# the module proxy fails for a moment: a build of an hour should not end with one bad gateway. The
# last pause is none, and fails.
fetch = for pause in 2 10 30 failed; do if go list -deps $(1) >/dev/null; then break; fi; sleep $$pause; done

# the modules with code of this repository, and those of the node bundle that pin a version of
# upstream's programs, which their build checks
WORK_MODULES := . plane sdk
OWN_MODULES  := cmd/slipway-bundle release nodebundle nodebundle/network test/e2e/upstream
# $(call own_work,module): the workspace of such a module; one that is published replaces nothing itself
own_work      = $(if $(filter cmd/slipway-bundle,$(1)),$(ROOT)/hack/bundle.work,off)
PIN_MODULES  := $(addprefix nodebundle/,containerd flannelcni kubernetes runc)

include nodebundle/bundle.mk

# No target without a slash is a file.
.PHONY: $(shell sed -nE 's/^([a-z][a-z0-9 -]*):.*/\1/p' Makefile nodebundle/bundle.mk)

# One set of flags for everything, generators, linters and tests included: packages of
# Kubernetes compile once for the plane, the node bundle and the tests.
export CGO_ENABLED := 0
export GOFLAGS := -trimpath
# The compiler may use memory rather than collect it: a quarter to a third less time.
GO_BUILD = GOGC=400 go build -v -buildvcs=false
STEP = $(ROOT)/hack/step.sh
TOOL = GOWORK=off go tool -modfile=$(ROOT)/go.tools.mod
# the file of a tool in the build cache, for those that must see a workspace
TOOL_PATH = $$(GOWORK=off go tool -n -modfile=$(ROOT)/go.tools.mod $(1))

LDFLAGS = -s -w -X github.com/slipway-dev/slipway/internal/version.Version=$(VERSION)
# what the embedded kube-apiserver answers at /version
PLANE_LDFLAGS = $(LDFLAGS) $(bundle_k8s_ldflags)

##@ Use

up: build ## Build all and bring up a plane with a cluster of three nodes on this machine
	$(BIN)/slipway up

down: ## Take it all down and remove its state
	@if [ -x $(BIN)/slipway ]; then $(BIN)/slipway down --purge --yes; else echo "bin/slipway is not built: nothing of it runs from here"; fi

##@ Build

build: deps ## Build the binaries and the node bundle into bin/; KUBERNETES=all for the other versions of Kubernetes, too
	@COUNTER=$$(mktemp) && trap 'rm -f "$$COUNTER"' EXIT && export COUNTER && \
	STEPS=$$($(MAKE) --no-print-directory --dry-run parts | grep -c '/hack/step.sh') $(MAKE) --no-print-directory parts

build-all: ## Build all, and the other versions of Kubernetes, which tests upgrade from and to
	@$(MAKE) --no-print-directory build KUBERNETES=all

# First what most of the code is compiled for, and what linters need: they may begin then.
parts: envtest manifests bundle binaries

# $(call build,module directory,program,ldflags)
build = cd $(ROOT)/$(1) && $(STEP) $(2) $(SHELL) -c '$(GO_BUILD) -ldflags "$(3)" -o $(BIN)/$(2) ./cmd/$(2)'

bundle_tool = cd $(ROOT)/cmd/slipway-bundle && GOWORK=$(call own_work,cmd/slipway-bundle) $(STEP) slipway-bundle $(SHELL) -c '$(GO_BUILD) -ldflags "$(LDFLAGS)" -o $(BIN)/slipway-bundle .'

binaries: manifests ## Build the binaries only
	@$(call build,.,slipway-agent,$(LDFLAGS))
	@$(call build,.,slipway-manager,$(LDFLAGS))
	@$(call build,.,slipway-lifecycle,$(LDFLAGS))
	@$(call build,plane,slipway-sandbox,$(LDFLAGS))
	@$(call build,plane,slipway,$(PLANE_LDFLAGS))
	@ln -sfn bundle/kubernetes/$(BUNDLE_KUBERNETES)/hyperkube $(BIN)/kubectl

# The key that signs host bundles; without one a key of this work tree is made, which
# nobody else trusts.
OWN_KEY := $(BIN)/hostbundle.key
HOST_BUNDLE_KEY ?= $(OWN_KEY)
# $(call own_key,variable): makes the key that a variable names, if it is this work tree's
own_key = if [ ! -e "$($(1))" ]; then \
	  if [ "$($(1))" != "$(OWN_KEY)" ]; then echo "$(1): there is no key $($(1)); \`slipway-bundle keygen\` makes one" >&2; exit 1; fi; \
	  $(BIN)/slipway-bundle keygen --name work-tree --private-key $(OWN_KEY) --public-key $(OWN_KEY:.key=.pub); fi

kubernetes: ## Add Kubernetes VERSION to the node bundle, of any minor but the plane's: requirements, programs, a page of what differs, a cluster and an upgrade; REMOVE=1 removes its minor
	@go run ./hack/kubernetes $(if $(REMOVE),remove,add) $(VERSION)

host-bundle: bundle ## Write what a real host needs of each Kubernetes version, and the agent, into bin/hostbundle, an OCI image layout signed with HOST_BUNDLE_KEY
	@$(bundle_tool)
	@$(call build,.,slipway-agent,$(LDFLAGS))
	@$(call own_key,HOST_BUNDLE_KEY)
	@$(STEP) "image archives" $(BUNDLE_PARTS)/nodebundle-build archives --bundle $(BUNDLE) --parts $(BUNDLE_PARTS) \
	  --kubernetes $(call bundle_list,$(BUNDLED)) --paired $(call bundle_list,$(BUNDLE_PAIRED)) --output $(BIN)/hostbundle.images
	@rm -rf $(BIN)/hostbundle
	@$(STEP) "host bundles" $(BIN)/slipway-bundle build --node-bundle $(BUNDLE) --images $(BIN)/hostbundle.images --agent $$(go env GOARCH)=$(BIN)/slipway-agent \
	  --private-key $(HOST_BUNDLE_KEY) --output $(BIN)/hostbundle
	@rm -rf $(BIN)/hostbundle.images

manifests: ## Render upstream's manifests from the module cache (not committed)
	@cd plane && $(STEP) "manifests of Cluster API" $(SHELL) -ec '$(call fetch,work); go generate ./internal/manifests'

# page of the API reference = package
API_PAGES := infrastructure-v1beta2=api/v1beta2 infrastructure-v1beta1=api/v1beta1 \
  lifecycle-v1alpha1=api/lifecycle/v1alpha1 runtime-v1alpha1=api/runtime/v1alpha1

CONTROLLER_GEN = $(call TOOL_PATH,controller-gen)

generate: export GOWORK = $(ROOT)/hack/root.work
generate: ## Write deepcopy code, CRDs, RBAC, webhook manifests and the API reference from the types
	$(CONTROLLER_GEN) object paths=./api/...
	$(CONTROLLER_GEN) crd paths="./api/v1beta1;./api/v1beta2;./api/runtime/..." output:crd:dir=config/crd/bases
	$(CONTROLLER_GEN) crd paths=./api/lifecycle/... output:crd:dir=config/lifecycle/crd/bases
	go run ./config/crd/gen -bounds internal/agent/link/bounds.json config/crd/bases config/lifecycle/crd/bases
	$(CONTROLLER_GEN) rbac:roleName=slipway-manager-role paths="./internal/controller/...;./internal/manager/...;./internal/webhook/..." output:rbac:dir=config/rbac
	$(CONTROLLER_GEN) webhook paths=./internal/webhook/... output:webhook:dir=config/webhook
	$(CONTROLLER_GEN) rbac:roleName=slipway-lifecycle-role paths=./internal/lifecycle/... output:rbac:dir=config/lifecycle/rbac
	$(CONTROLLER_GEN) webhook paths=./internal/lifecycle/... output:webhook:dir=config/lifecycle/webhook
	for page in $(API_PAGES); do $(call TOOL_PATH,crd-ref-docs) --log-level ERROR --config hack/crd-ref-docs.yaml --renderer markdown \
	  --source-path $${page#*=} --output-path docs/reference/api/$${page%%=*}.md; done

new-check new-step-kind: new-%: ## Write the file of a check of slipway doctor, or of a kind of lifecycle step, and its test; NAME=DiskFull
	go run ./hack/new $* $(NAME)
	gofmt -w internal/doctor internal/lifecycle/step

docs: generate manifests ## Write the references and the drawings of docs/ from the code
	go test -vet=off -trimpath -count=1 ./test/docs -run Reference -args -write
	cd plane && go test -vet=off -trimpath -count=1 ./internal/cli -run TestReference -args -write
	go test -vet=off -trimpath -count=1 ./internal/providercheck -run TestCatalogue -args -write
	cd docs/drawings && for text in *.d2; do $(TOOL) d2 --theme 0 --dark-theme 200 --pad 16 $$text $${text%.d2}.svg; done
	cd docs/drawings && chmod 0644 *.svg && sha256sum *.d2 *.svg >SHA256SUMS

##@ Check

check: ## The one-minute loop: import rules, generated files, go.mod, and the tests that need neither root nor built programs
	@$(call each,verify-imports verify-generated verify-modules test-unit)

# fetched first: what runs side by side would fetch it several times
tools:
	@export GOWORK=off && $(call fetch,-modfile=$(ROOT)/go.tools.mod tool)

# Output by target: what runs side by side does not interleave.
verify: tools ## Format, linters, import rules, generated files and go.mod; nothing in the work tree is changed
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target lint verify-imports verify-generated verify-modules

lint: lint-work $(OWN_MODULES:%=lint-%) ## golangci-lint with kube-api-linter over every module, and the format of all files

GOLANGCI_LINT = $(call TOOL_PATH,golangci-lint-kube-api-linter) run --allow-parallel-runners --config $(ROOT)/.golangci.yml

.PHONY: lint-work $(OWN_MODULES:%=lint-%)
lint-work: manifests
	@echo "  LINT  $(WORK_MODULES)" && $(GOLANGCI_LINT) $(patsubst %,./%/...,$(WORK_MODULES))
$(OWN_MODULES:%=lint-%): lint-%:
	@echo "  LINT  $*" && export GOWORK=$(call own_work,$*) && cd $* && $(GOLANGCI_LINT) ./...

format: ## Format all Go files as lint wants them
	$(call TOOL_PATH,golangci-lint-kube-api-linter) fmt --config $(ROOT)/.golangci.yml

verify-imports:
	@echo "  TEST  import rules" && go test -vet=off -count=1 ./test/imports

verify-generated:
	@echo "  DIFF  generated files" && hack/verify-generated.sh $(BIN)/verified/generated

verify-modules: $(patsubst %,verify-modules-%,$(WORK_MODULES) $(OWN_MODULES))

.PHONY: $(patsubst %,verify-modules-%,$(WORK_MODULES) $(OWN_MODULES))
$(patsubst %,verify-modules-%,$(WORK_MODULES) $(OWN_MODULES)): verify-modules-%:
	@echo "  DIFF  $*/go.mod" && cd $* && $(ROOT)/hack/tidy.sh -diff

tidy: ## Write go.mod and go.sum of every module from the imports
	for module in $(WORK_MODULES) $(OWN_MODULES); do (cd $$module && $(ROOT)/hack/tidy.sh); done

GOVULNDB ?= https://vuln.go.dev
vulncheck: manifests ## Look for known vulnerabilities in what the code calls, that of the node bundle included; GOVULNDB names another database
	@vulncheck=$(call TOOL_PATH,govulncheck); for module in $(WORK_MODULES) $(OWN_MODULES) $(PIN_MODULES); do echo "  VULN  $$module"; (cd $$module && \
	  export GOWORK=off && case $$module in .) GOWORK=$(ROOT)/hack/root.work ;; cmd/slipway-bundle) GOWORK=$(call own_work,cmd/slipway-bundle) ;; esac && go list ./... tool | xargs $$vulncheck -db $(GOVULNDB)); done

##@ Test

# $(call GOTEST,name,format): go test by gotestsum, which keeps the events of a run for
# `make slowest`. No test may be left out for want of rights or built binaries. `go vet` is
# a part of `make lint`, which knows more of it and looks at each package once.
# Without what debuggers and other programs read (-s), a test binary is linked in two thirds
# of the time.
TEST_EVENTS := $(BIN)/tests
TEST_PROGRAMS = KUBEBUILDER_ASSETS=$(ENVTEST) SLIPWAY_BIN=$(BIN)
test-packages: TEST_PROGRAMS = KUBEBUILDER_ASSETS=$$(hack/by-content.sh $(ENVTEST)) SLIPWAY_BIN=$$(hack/by-content.sh $(BIN))
GOTEST = mkdir -p $(TEST_EVENTS) && gotestsum=$(call TOOL_PATH,gotestsum) && \
	$(TEST_PROGRAMS) $$gotestsum --format $(2) --hide-summary skipped --jsonfile $(TEST_EVENTS)/$(1).json -- -vet=off -ldflags=-s
test test-packages test-alone test-e2e race-concurrent chaos test-vm test-machine test-control-plane-in-place: export SLIPWAY_REQUIRE_ROOT = 1

# No test of a plane takes programs of these tests for its own (see test/live), or what makes
# packages for what it left behind.
race-concurrent test-packages test-modules test-machine: export SLIPWAY_TEST = planetest-none

# How tests of packages run. In the gate as `go test` has it by default: a package is not tested
# again while its code, what its tests read and the programs that they start are the same. In
# the deep suite every test runs, in random order, and mounts in a namespace of its own.
HOW = $(if $(SLIPWAY_DEEP),-count=1 -shuffle=on $(if $(filter 0,$(shell id -u)),-exec 'unshare --mount'))

# the packages with real kubelets, side by side; SLIPWAY_TEST_HOSTS=1 has one plane at a time
E2E_PACKAGES := ./test/conformance/clusterctl ./test/e2e
# those that measure seconds (live.Alone): nothing else may run beside them
ALONE_TESTS := TestControlPlane|TestControlPlaneIPv6|TestControlPlaneDualStack
with_tests = go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}'
packages_without = $$($(with_tests) work | grep -vxFf <(go list $(1)))

test: ready build ## The gate: what each change passes and CI runs. Linters, unit tests, a real API server, one test with real kubelets
	@rm -rf $(TEST_EVENTS)
	@failed=; $(MAKE) --no-print-directory --keep-going --jobs=2 test-e2e gate-packages || failed=1; \
	  $(MAKE) --no-print-directory slowest failures; go run ./test/areas affected; [ -z "$$failed" ]
ready:
	@hack/ready.sh

test-slow: ready ## make test with a third of the processors: no test minds a slow machine (an hour)
	@hack/slow.sh $(MAKE) --no-print-directory test
gate-packages:
	@$(call each,verify test-packages)

# $(call each,targets): makes all of them, one after the other, whichever fail
each = failed=; for target in $(1); do echo "==> $$target"; $(MAKE) --no-print-directory $$target || failed+=" $$target"; done; \
	[ -z "$$failed" ] || { echo "failed:$$failed" >&2; exit 1; }

# What takes long, in the order in which it runs; AREA names some of it. test/areas has what each
# needs and how long it takes; its result is left in bin/deep.
DEEP_AREAS := test-alone test-e2e test-packages test-modules race-concurrent test-check test-mutants test-machine test-upstream-fastest
AREA ?= $(DEEP_AREAS)
test-deep: export SLIPWAY_DEEP = 1
test-deep: build-all ## All else: every test with real kubelets, all packages in depth, modules alone, race detector, emulated machine, upstream's specs (an hour and a half)
	@go run ./test/areas run $(AREA)

test-unit: TEST_PROGRAMS = env -u KUBEBUILDER_ASSETS -u SLIPWAY_BIN
test-unit: manifests ## Only the tests that need neither root nor built binaries
	@$(call GOTEST,unit,standard-quiet) -short $(call packages_without,$(E2E_PACKAGES))

# memory against garbage collection, of linkers, tests, API servers and planes: the machine has
# more of the first, and most of them live for minutes
test-packages race-concurrent test-modules test-e2e test-upstream-fastest: export GOGC ?= 400

# Two packages more than there are processors: those that wait, as for an API server to look
# again, leave a fifth of them.
test-packages: prometheus python $(if $(SLIPWAY_DEEP),registry chromium) ## The tests of the gate but those with real kubelets; SLIPWAY_DEEP=1 for all of them, in random order
	@$(call fetch,-test work)
	@failed=; $(call GOTEST,tree,standard-quiet) -count=1 $(TREE_PACKAGES) || failed=1; \
	  $(call GOTEST,packages,standard-quiet) -p $$(($$(nproc) + 2)) $(if $(SLIPWAY_DEEP),-timeout 40m) $(HOW) $(LONGEST_PACKAGES) \
	    $(call packages_without,$(E2E_PACKAGES) $(LONGEST_PACKAGES) $(TREE_PACKAGES) ./test/imports) || failed=1; [ -z "$$failed" ]

# Their tests run the go command on the tree, which cannot see what they depend on; `make verify`
# has ./test/imports.
TREE_PACKAGES := ./test/reasons ./test/failures

# Those that take minutes, or wait for most of a minute, begin first: the others run beside
# them, and none is left to run alone at the end.
LONGEST_PACKAGES := ./test/conformance/provider ./internal/controller/hostmachinepool ./internal/provision ./test/console ./test/outside \
  $(addprefix ./test/conformance/,lifecycle privilege runtime trust)

# programs that tests start, of PATH or of Debian's packages
prometheus registry python rpm vm chromium:
	@hack/need.sh $@
test-packages test-console ui-shots: export SLIPWAY_TEST_CHROMIUM = $(BIN)/chromium

# where ui-shots writes to; docs/console has what docs/console.md shows
SHOTS ?= $(ROOT)/out/ui

test-console: envtest chromium ## Follow a cluster on the console in a real Chromium, and decide there (a minute)
	@$(call GOTEST,console,standard-verbose) -count=1 -timeout 20m ./test/console
ui-shots: envtest chromium ## The same, with a picture of each page in out/ui
	@rm -rf $(SHOTS) && mkdir -p $(SHOTS)
	@KUBEBUILDER_ASSETS=$(ENVTEST) go test -count=1 -timeout 20m ./test/console -args -shots $(abspath $(SHOTS))

test-alone: export SLIPWAY_DEEP = 1
test-alone: ## The tests with real kubelets that measure seconds; run nothing beside them
	@$(call GOTEST,alone,standard-verbose) -count=1 -timeout 45m -run '^($(ALONE_TESTS))$$' ./test/e2e

test-e2e: export SLIPWAY_TEST_BESIDE = 1
test-e2e: prometheus ## clusterctl's conformance and the end-to-end tests, side by side and in random order; SLIPWAY_DEEP=1 for all of them
	@cd test/e2e/upstream && export GOWORK=off && $(call fetch,sigs.k8s.io/cluster-api/cmd/clusterctl)
	@$(call GOTEST,e2e,standard-verbose) -shuffle=on -p 2 -timeout 60m -skip '^($(ALONE_TESTS))$$' $(E2E_PACKAGES)

# Each module with the versions that its own go.mod names, as those who require it see it.
test-modules: python rpm ## The modules outside of the workspace, and the SDK alone, with GOWORK=off
	@$(foreach module,$(TESTED_MODULES),(export GOWORK=$(call own_work,$(module)) && cd $(module) && $(call fetch,-test -tags e2e ./...) && \
	  $(call GOTEST,$(subst /,-,$(module)),standard-quiet) -timeout 30m $(HOW) ./...) && ) true
TESTED_MODULES = $(foreach module,sdk $(OWN_MODULES),$(if $(shell find $(module) -name '*_test.go' -print -quit),$(module)))

# Concurrent code whose race build takes minutes, not tens of minutes: the plane's packages compile
# kube-apiserver once more. Left out is what one goroutine does, many times over: test-modules tries
# it ten times faster.
race-concurrent: envtest python ## The race detector over concurrent code (cgo on; most of half an hour when cold)
	@export CGO_ENABLED=1; $(call GOTEST,race,standard-quiet) $(HOW) -race -timeout 30m \
	  -skip '^(TestFootprint|TestFootprintIsTrue|TestMangledAnswers|TestWritesAsEncodingJSON|TestCommentsAreCurrent)$$' \
	  ./sdk/... ./internal/agent/... ./internal/throttle ./internal/controller/host

test-check: ## make check in a clone of its own, where no program is built
	@mkdir -p $(TEST_EVENTS) && clone=$$(mktemp -d) && trap 'cp "$$clone/bin/tests/unit.json" $(TEST_EVENTS)/check.json || :; rm -rf "$$clone"' EXIT && git clone --quiet . "$$clone" && env -u SLIPWAY_DEEP $(MAKE) --no-print-directory -C "$$clone" check

test-mutation: envtest ## Break the provider, the lifecycle engine and the boundaries in many ways, each of which the rule or test that it names must notice (an hour and a half)
	go run ./test/conformance/mutation

# FILES is a regular expression of other files, which docs/contracts.md or docs/hazards.md names.
test-mutants: envtest ## Make every small fault, one at a time, in the files of test/conformance/mutation/survivors.yaml, which the tests of their packages must notice
	@$(TEST_PROGRAMS) go run ./test/conformance/mutation generate $(and $(FILES),-files '$(FILES)')

chaos: export SLIPWAY_BIN = $(BIN)
chaos: SEED ?= $(shell date +%s)
chaos: DURATION ?= 60m
chaos: build ## Inject random faults into a live plane for DURATION (60m), and judge what follows; SEED repeats a run, WITHOUT leaves a fault out
	@mkdir -p $(BIN)/chaos
	go test -count=1 -v -timeout 0 ./test/chaos -run '^TestChaos$$' -artifacts -outputdir $(BIN)/chaos -args -seed $(SEED) -duration $(DURATION) -without "$(WITHOUT)"

test-vm test-machine: export SLIPWAY_TEST_VM = 1
test-vm test-machine: export SLIPWAY_TEST_VM_SUITE = $(or $(SUITE),bookworm)
test-vm: vm ## Boot Debian machines in an emulator, SUITE=trixie for Debian 13, and make hosts of them by `slipway host add`, or a plane (most of an hour)
	@$(MAKE) --no-print-directory build host-bundle packages registry KUBERNETES=all
	@$(call GOTEST,vm,standard-verbose) -count=1 -timeout 180m $(and $(RUN),-run '$(RUN)') ./test/vm
test-machine: vm packages ## Install, power off and purge the package of the agent on one such machine, and reset another one (twenty minutes)
	@$(call GOTEST,machine,standard-verbose) -count=1 -timeout 60m -run '^Test(Package|Clean)$$' ./test/vm

test-control-plane-in-place: export SLIPWAY_TEST_CONTROL_PLANE = 1
test-control-plane-in-place: build-all ## Upgrade three control planes on their hosts, one of which loses its power (some minutes)
	@$(call GOTEST,control-plane-in-place,standard-verbose) -count=1 -timeout 60m -run '^TestControlPlaneInPlace$$' ./test/e2e

# What upstream's maintainers hold providers to; docs/upstream-e2e.md tells of each spec. The
# deep suite runs the fastest of them: each takes minutes, and all of them most of two hours.
UPSTREAM_SPECS = $(SPEC)
test-upstream: UPSTREAM_VERBOSE = -ginkgo.v
test-upstream: build-all ## Run upstream's end-to-end specs against a plane of 5 local hosts, or those of SPEC=MachinePool,ClusterDeletion
	@$(UPSTREAM)
test-upstream-fastest: UPSTREAM_SPECS = KCPAdoption,MachineDeploymentRemediation,MachinePool
test-upstream-fastest: ## The three fastest of upstream's specs
	@$(UPSTREAM)
UPSTREAM = cd test/e2e/upstream && export GOWORK=off KUBERNETES_VERSION=$(BUNDLE_KUBERNETES) && \
	  export KUBERNETES_VERSION_UPGRADE_FROM=$(BUNDLE_KUBERNETES_BEFORE) && $(call fetch,-tags e2e -test ./...) && \
	  $(call GOTEST,upstream,standard-verbose) -tags e2e -count=1 -timeout 3h -run '^TestSpecs$$' . -args \
	  $(UPSTREAM_VERBOSE) -ginkgo.no-color -ginkgo.fail-on-empty -ginkgo.label-filter '$(UPSTREAM_SPECS)' -e2e.bin $(BIN) -e2e.artifacts-folder $(BIN)/upstream

slowest: ## The 20 slowest tests of the last runs
	@echo "The 20 slowest tests:" && cat $(TEST_EVENTS)/*.json | $(call TOOL_PATH,gotestsum) tool slowest --num 20

failures: ## Why tests of the last runs failed, a line of each thing they said
	@go run ./test/failures $(TEST_EVENTS)/*.json

##@ Measure

bench: build ## Measure the figures of docs/performance.md and print the tables
	go run ./test/bench -bin $(BIN)
	go test -run '^$$' -bench BenchmarkProof -benchtime 5x ./internal/agent/effects/reset
	$(MAKE) --no-print-directory bench-runtime
	$(MAKE) --no-print-directory bench-scale

bench-runtime: ## Measure the runtime SDK beside upstream's
	go test -count=1 -v -timeout 30m ./test/bench/runtime -args -measure

bench-scale: build bench-peer ## Measure large pools alone: 1,000 to 5,000 simulated hosts, beside upstream's in-memory provider
	go run ./test/bench/scale -bin $(BIN)

bench-peer: PEER := sigs.k8s.io/cluster-api/test/infrastructure/docker
bench-peer: envtest ## Build upstream's in-memory provider, which bench-scale measures beside ours
	@mkdir -p $(BIN)/peer
	@cd test/e2e/upstream && export GOWORK=off && $(call fetch,$(PEER)) && \
	  echo "  GO    upstream's in-memory provider" && $(GO_BUILD) -ldflags "-s -w" -o $(BIN)/peer/manager $(PEER) && \
	  $(ENVTEST)/kubectl kustomize "$$(go list -m -f '{{.Dir}}' sigs.k8s.io/cluster-api/test)/infrastructure/docker/config/default" >$(BIN)/peer/components.yaml

##@ Release

# The key that signs a release; RELEASE_KEY= leaves it unsigned
RELEASE_KEY ?= $(HOST_BUNDLE_KEY)

packages: binaries ## Write the deb and the rpm of slipway and of slipway-agent into bin/packages
	@cd release && GOWORK=off go run . -source $(ROOT) -out $(BIN)/packages -version $(VERSION) -epoch $$(git log -1 --format=%ct) -architectures $$(go env GOARCH) -packages $(BIN)

release: manifests ## Write the release of VERSION into out/: clusterctl's repository, binaries, image archives, SBOMs, checksums signed with RELEASE_KEY; HOST_BUNDLE=bin/hostbundle adds host bundles, NODE_BUNDLE=bin/bundle what local hosts boot with
	@$(bundle_tool)
	@[ -z "$(RELEASE_KEY)" ] || { $(call own_key,RELEASE_KEY); }
	cd release && SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)} GOWORK=off go run . -source $(ROOT) -out $(ROOT)/out -version $(VERSION) -host-bundle "$(HOST_BUNDLE)" -node-bundle "$(NODE_BUNDLE)" -kubernetes-flags "$(bundle_k8s_ldflags)" -key "$(RELEASE_KEY)"

##@ Help

help: ## List the targets
	@awk 'BEGIN {FS = ":.*##"} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-zA-Z0-9_-]+:.*?##/ {printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
