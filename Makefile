# Slipway: `make help` lists the targets.
SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

ROOT := $(CURDIR)
BIN  := $(ROOT)/bin
# a semantic version: clusterctl reads it from the Provider object
VERSION ?= $(shell git describe --tags --match 'v*' --dirty 2>/dev/null || echo v0.1.0-dev)

FETCH_MODULES := $(ROOT)/hack/fetch-modules.sh

# the modules of the workspace that are checked; the node bundle's go their own way
MODULES := . plane sdk release

include nodebundle/bundle.mk

# One set of flags for everything, generators, linters and tests included: packages of
# Kubernetes compile once for the plane, the node bundle and the tests.
export CGO_ENABLED := 0
export GOFLAGS := -trimpath
# The compiler may use memory rather than collect it: a quarter to a third less time.
GO_BUILD = GOGC=400 go build -v
STEP = $(ROOT)/hack/step.sh
TOOL = GOWORK=off go tool -modfile=$(ROOT)/go.tools.mod

LDFLAGS = -s -w -X github.com/slipway-dev/slipway/internal/version.Version=$(VERSION)
# what the embedded kube-apiserver answers at /version
PLANE_LDFLAGS = $(LDFLAGS) $(bundle_k8s_ldflags)

##@ Use

.PHONY: up
up: build ## Build all and bring up a plane with a cluster of three nodes on this machine
	$(BIN)/slipway up

.PHONY: down
down: ## Take it all down and remove its state
	@if [ -x $(BIN)/slipway ]; then $(BIN)/slipway down --purge; else echo "bin/slipway is not built: nothing of it runs from here"; fi

##@ Build

.PHONY: build
build: deps ## Build the binaries and the node bundle into bin/; KUBERNETES=all for older versions of Kubernetes, too
	@COUNTER=$$(mktemp) && trap 'rm -f "$$COUNTER"' EXIT && export COUNTER && \
	STEPS=$$($(MAKE) --no-print-directory --dry-run parts | grep -c '/hack/step.sh') $(MAKE) --no-print-directory parts

.PHONY: build-all
build-all: ## Build all, and the older versions of Kubernetes that tests upgrade from
	@$(MAKE) --no-print-directory build KUBERNETES=all

.PHONY: parts
parts: bundle envtest binaries

# $(call build,module directory,program,ldflags)
build = cd $(ROOT)/$(1) && $(STEP) $(2) $(SHELL) -c '$(GO_BUILD) -ldflags "$(3)" -o $(BIN)/$(2) ./cmd/$(2)'

.PHONY: binaries
binaries: manifests ## Build the binaries only
	@$(call build,.,slipway-agent,$(LDFLAGS))
	@$(call build,.,slipway-manager,$(LDFLAGS))
	@$(call build,.,slipway-lifecycle,$(LDFLAGS))
	@$(call build,plane,slipway-sandbox,$(LDFLAGS))
	@$(call build,plane,slipway,$(PLANE_LDFLAGS))
	@ln -sfn bundle/kubernetes/$(BUNDLE_KUBERNETES)/hyperkube $(BIN)/kubectl

.PHONY: build-report
build-report: ## Tell which packages the build compiles, and which more than once
	@$(ROOT)/hack/build-report.sh

.PHONY: manifests
manifests: ## Render upstream's manifests from the module cache (not committed)
	@cd plane && $(STEP) "manifests of Cluster API" $(SHELL) -c '$(FETCH_MODULES) work && go generate ./internal/manifests'

.PHONY: generate
generate: ## Write deepcopy code, CRDs, RBAC and webhook manifests from the types
	$(TOOL) controller-gen object paths=./api/...
	$(TOOL) controller-gen crd paths="./api/v1beta1;./api/v1beta2;./api/runtime/..." output:crd:dir=config/crd/bases
	$(TOOL) controller-gen crd paths=./api/lifecycle/... output:crd:dir=config/lifecycle/crd/bases
	$(TOOL) controller-gen rbac:roleName=slipway-manager-role paths="./internal/controller/...;./internal/manager/...;./internal/webhook/..." output:rbac:dir=config/rbac
	$(TOOL) controller-gen webhook paths=./internal/webhook/... output:webhook:dir=config/webhook
	$(TOOL) controller-gen rbac:roleName=slipway-lifecycle-role paths=./internal/lifecycle/... output:rbac:dir=config/lifecycle/rbac
	$(TOOL) controller-gen webhook paths=./internal/lifecycle/... output:webhook:dir=config/lifecycle/webhook

##@ Check

# no test may be left out for want of rights or built binaries
test test-e2e: export SLIPWAY_REQUIRE_ROOT = 1

# The seed by which tests of many alike cases, such as crashes at each write, try a sample
# of them. Give it to repeat a run.
SLIPWAY_TEST_SAMPLE ?= $(shell date +%s)
test test-e2e: export SLIPWAY_TEST_SAMPLE := $(SLIPWAY_TEST_SAMPLE)

.PHONY: test
test: build-all bundle-test ## Everything CI runs: unit, API server and end-to-end tests
	@echo "  TEST  $(if $(SLIPWAY_TEST_SAMPLE),a sample of alike cases; SLIPWAY_TEST_SAMPLE=$(SLIPWAY_TEST_SAMPLE) repeats it,all cases)"
	$(FETCH_MODULES) -test work
	cd release && GOWORK=off $(FETCH_MODULES) -test ./...
	cd test/conformance/clusterctl/tool && GOWORK=off $(FETCH_MODULES) tool
	KUBEBUILDER_ASSETS=$(ENVTEST) SLIPWAY_BIN=$(BIN) \
	  go test -timeout 20m $$(go list work | grep -v -e /test/e2e -e /test/conformance/clusterctl)
	cd release && GOWORK=off go test ./...
	$(MAKE) --no-print-directory test-e2e

.PHONY: test-full
test-full: ## Like test, with every case of what CI tries a sample of
	@$(MAKE) --no-print-directory test SLIPWAY_TEST_SAMPLE=

.PHONY: test-e2e
test-e2e: ## The tests with real kubelets alone, one plane at a time: clusterctl's conformance and the end-to-end tests
	KUBEBUILDER_ASSETS=$(ENVTEST) SLIPWAY_BIN=$(BIN) go test -count=1 -p 1 -timeout 30m -v ./test/conformance/clusterctl ./test/e2e

.PHONY: test-unit
test-unit: manifests ## Only the tests that need neither root nor built binaries
	go test -short work

.PHONY: lint
lint: manifests ## golangci-lint over every module of the workspace
	for module in $(MODULES); do (cd $$module && $(TOOL) golangci-lint run --config $(ROOT)/.golangci.yml ./...); done

.PHONY: verify
verify: generate tidy ## Fail when generated files or go.mod are stale
	git diff --exit-code -- api config go.mod go.sum plane/go.mod plane/go.sum sdk/go.mod sdk/go.sum release/go.mod release/go.sum
	for module in $(MODULES); do (cd $$module && GOWORK=off go vet ./...); done

.PHONY: tidy
tidy:
	for module in $(MODULES); do (cd $$module && GOWORK=off go mod tidy); done

.PHONY: bench
bench: build ## Measure the figures of docs/performance.md and print the tables
	go run ./test/bench -bin $(BIN)
	$(MAKE) --no-print-directory bench-runtime
	$(MAKE) --no-print-directory bench-scale

.PHONY: bench-runtime
bench-runtime: ## Measure the runtime SDK beside upstream's
	go test -count=1 -v -timeout 30m ./test/bench/runtime -args -measure

.PHONY: bench-scale
bench-scale: build bench-peer ## Measure large pools alone: 1,000 to 5,000 simulated hosts, beside upstream's in-memory provider
	go run ./test/bench/scale -bin $(BIN)

PEER := $(ROOT)/test/bench/scale/peer

.PHONY: bench-peer
bench-peer: envtest ## Build upstream's in-memory provider, which bench-scale measures beside ours
	@cd $(PEER) && GOWORK=off $(FETCH_MODULES) tool
	@mkdir -p $(BIN)/peer
	@echo "  GO    upstream's in-memory provider" && cd $(PEER) && GOWORK=off $(GO_BUILD) -ldflags "-s -w" -o $(BIN)/peer/manager tool
	@cd $(PEER) && $(ENVTEST)/kubectl kustomize \
	  "$$(GOWORK=off go list -m -f '{{.Dir}}' sigs.k8s.io/cluster-api/test)/infrastructure/docker/config/default" >$(BIN)/peer/components.yaml

##@ Release

.PHONY: release
release: ## Write the release of VERSION into out/: clusterctl's repository, binaries, image archives, SBOMs, checksums
	cd release && GOWORK=off $(GO_BUILD) -o $(BIN)/release .
	SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)} $(BIN)/release -source $(ROOT) -out $(ROOT)/out -version $(VERSION)

##@ Help

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*##"} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-zA-Z0-9_-]+:.*?##/ {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
