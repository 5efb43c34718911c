# The node bundle: everything a local host boots with, built from Go modules and
# a few packages of the machine. Included by the Makefile at the repository's
# root; see nodebundle/README.md.
#
#   bundle        bin/bundle, with the image store when run as root
#   envtest       bin/envtest, for KUBEBUILDER_ASSETS
#   deps          Debian packages that the bundle's build needs
#
# KUBERNETES names other versions to build beside the plane's, or is `all`. Versions
# that the bundle holds already stay in it.
#
# Each binary is a file target that depends on its module's sources, on this file
# and on the Go toolchain: when nothing changed, no compiler is asked.

BUNDLE_BIN   := $(CURDIR)/bin
BUNDLE       := $(BUNDLE_BIN)/bundle
BUNDLE_PARTS := $(BUNDLE_BIN)/.nodebundle
ENVTEST      := $(BUNDLE_BIN)/envtest

# $(call bundle_mod,directory,file): the go.mod of the module that a directory is in or one level
# below, or another file of that form, which has the requirements for an older Kubernetes.
bundle_mod = $(firstword $(wildcard $(addsuffix $(or $(2),go.mod),nodebundle/$(1)/ nodebundle/$(dir $(1)))))
# $(call bundle_version,directory,module path,file): the version that such a file requires
bundle_version = $(shell sed -n 's|^[[:space:]]*\(require \)\{0,1\}$(2) \(v[^ ]*\).*|\2|p' $(call bundle_mod,$(1),$(3)))

# The Kubernetes versions from old to new, each by a file with its requirements; that of
# go.mod is the default, and the plane's.
BUNDLE_KUBERNETES_FILES    := $(shell cd nodebundle/kubernetes && awk '{for (i = 1; i < NF; i++) if ($$i == "k8s.io/kubernetes") print $$(i+1), FILENAME}' *.mod | sort -V | cut -d' ' -f2)
BUNDLE_KUBERNETES_VERSIONS := $(foreach f,$(BUNDLE_KUBERNETES_FILES),$(call bundle_version,kubernetes,k8s.io/kubernetes,$(f)))
BUNDLE_KUBERNETES := $(call bundle_version,kubernetes,k8s.io/kubernetes)
# the version before the plane's, from which upstream's specs upgrade
BUNDLE_KUBERNETES_BEFORE = $(lastword $(filter-out $(BUNDLE_KUBERNETES),$(shell printf '%s\n' $(BUNDLE_KUBERNETES_VERSIONS) | sed '/^$(BUNDLE_KUBERNETES)$$/q')))
BUNDLE_CONTAINERD := $(call bundle_version,containerd,github.com/containerd/containerd/v2)
BUNDLE_RUNC       := $(call bundle_version,runc,github.com/opencontainers/runc)
BUNDLE_CNI        := $(call bundle_version,network,github.com/containernetworking/plugins)
BUNDLE_FLANNELCNI := $(call bundle_version,flannelcni,github.com/containernetworking/plugins)
BUNDLE_ETCD       := $(call bundle_version,etcd,go.etcd.io/etcd/server/v3)

HYPERKUBE  := $(BUNDLE)/kubernetes/$(BUNDLE_KUBERNETES)/hyperkube

# Those to build, from old to new, and the files of their requirements.
KUBERNETES ?=
$(if $(filter-out all $(BUNDLE_KUBERNETES_VERSIONS),$(KUBERNETES)),$(error KUBERNETES=$(KUBERNETES): choose of $(BUNDLE_KUBERNETES_VERSIONS), or all))
BUNDLED := $(if $(filter all,$(KUBERNETES)),$(BUNDLE_KUBERNETES_VERSIONS),$(filter \
	$(KUBERNETES) $(BUNDLE_KUBERNETES) $(notdir $(wildcard $(BUNDLE)/kubernetes/v*)),$(BUNDLE_KUBERNETES_VERSIONS)))
BUNDLED_FILES := $(foreach f,$(BUNDLE_KUBERNETES_FILES),$(if $(filter $(BUNDLED),$(call bundle_version,kubernetes,k8s.io/kubernetes,$(f))),$(f)))
HYPERKUBES := $(BUNDLED:%=$(BUNDLE)/kubernetes/%/hyperkube)

# $(call bundle_sources,directory,file): what its binaries depend on.
bundle_sources = $(filter-out %_test.go,$(wildcard nodebundle/$(1)/*.go)) $(foreach mod,$(call bundle_mod,$(1),$(2)),$(mod) $(wildcard $(mod:.mod=.sum))) \
	nodebundle/bundle.mk $(BUNDLE_PARTS)/toolchain

# $(call bundle_build,directory,tags,extra ldflags,output,package,file,programs). Every
# file is named in the rule's target, and in programs where they are several; `touch` marks
# those that go left as they were. They do not tell of the commit: the next one would link
# them all again, and each host bundle would have new digests.
bundle_build = @mkdir -p $(@D) && export GOWORK=$(or $(BUNDLE_GOWORK),off) CGO_ENABLED=$(or $(BUNDLE_CGO),0) && cd nodebundle/$(1) && \
	$(STEP) "$(or $(BUNDLE_STEP),$(notdir $(1))$(if $(6), of $(basename $(6))))" $(ROOT)/hack/kept-programs.sh $(BUNDLE_BIN) $(or $(7),$@) -- bash -ec "$(subst $$,\$$,$(call fetch,$(if $(6),-modfile=$(abspath $(call bundle_mod,$(1),$(6)))) -tags '$(2)' $(5))) && \
	$(GO_BUILD) $(if $(6),-modfile=$(abspath $(call bundle_mod,$(1),$(6)))) -tags '$(2)' -ldflags '-s -w $(3)' -o $(4) $(5)"

# Kubernetes takes its version from the linker, as upstream's release does; kubeadm
# refuses to work without one. The build date is fixed to keep the build repeatable.
bundle_k8s_ldflags_of = $(foreach p,k8s.io/component-base/version k8s.io/client-go/pkg/version,\
	-X $(p).gitVersion=$(1) -X $(p).gitMajor=1 -X $(p).gitMinor=$(word 2,$(subst ., ,$(1))) \
	-X $(p).gitTreeState=clean -X $(p).gitCommit=unknown -X $(p).buildDate=1970-01-01T00:00:00Z)
bundle_k8s_ldflags := $(call bundle_k8s_ldflags_of,$(BUNDLE_KUBERNETES))

# Parts that each kubeadm names by a version of its own. The plane's Kubernetes goes
# by go.mod; another one that wants another version by kubernetes-<minor>.mod.
# $(call bundle_paired,directory,module path): words "directory-version:file".
bundle_paired = $(foreach k,$(BUNDLED_FILES),$(foreach f,$(notdir $(or $(call bundle_mod,$(1),$(k)),go.mod)),$(1)-$(call bundle_version,$(1),$(2),$(f)):$(f)))
BUNDLE_PAIRED_RULES := $(sort $(call bundle_paired,etcd,go.etcd.io/etcd/server/v3) $(call bundle_paired,network/coredns,github.com/coredns/coredns))
BUNDLE_PAIRED := $(foreach p,$(BUNDLE_PAIRED_RULES),$(notdir $(firstword $(subst :, ,$(p)))))

BUNDLE_CONTAINERD_FILES := $(addprefix $(BUNDLE)/bin/,containerd containerd-shim-runc-v2 ctr)
BUNDLE_CNI_FILES        := $(addprefix $(BUNDLE)/cni/,bridge host-local loopback portmap ptp)
BUNDLE_PART_FILES       := $(addprefix $(BUNDLE_PARTS)/,$(BUNDLE_PAIRED) echo flanneld pause)
BUNDLE_FILES            := $(HYPERKUBES) $(BUNDLE_CONTAINERD_FILES) $(BUNDLE)/bin/runc \
	$(BUNDLE_CNI_FILES) $(BUNDLE)/cni/flannel $(BUNDLE_PART_FILES)

bundle_empty :=
bundle_comma := ,
bundle_list = $(subst $(bundle_empty) $(bundle_empty),$(bundle_comma),$(strip $(1)))

bundle: $(BUNDLE_FILES) $(BUNDLE_PARTS)/nodebundle-build ## Build the node bundle (bin/bundle)
	@$(STEP) "images of Kubernetes $(BUNDLED)" $(BUNDLE_PARTS)/nodebundle-build assemble --bundle $(BUNDLE) --parts $(BUNDLE_PARTS) \
		--kubernetes $(call bundle_list,$(BUNDLED)) --paired $(call bundle_list,$(BUNDLE_PAIRED))
	@$(STEP) "image store" $(BUNDLE_PARTS)/nodebundle-build seed --bundle $(BUNDLE)

envtest: $(HYPERKUBE) $(BUNDLE_PARTS)/etcd-$(BUNDLE_ETCD) ## Provide kube-apiserver, kube-controller-manager, kubectl and etcd for envtest (bin/envtest)
	@mkdir -p $(ENVTEST)
	@ln -sfn ../bundle/kubernetes/$(BUNDLE_KUBERNETES)/hyperkube $(ENVTEST)/kube-apiserver
	@ln -sfn ../bundle/kubernetes/$(BUNDLE_KUBERNETES)/hyperkube $(ENVTEST)/kubectl
	@ln -sfn ../bundle/kubernetes/$(BUNDLE_KUBERNETES)/hyperkube $(ENVTEST)/kube-controller-manager
	@ln -sfn ../.nodebundle/etcd-$(BUNDLE_ETCD) $(ENVTEST)/etcd

# The toolchain file changes only when the toolchain does.
$(shell mkdir -p $(BUNDLE_PARTS); go env GOVERSION GOOS GOARCH | cmp -s - $(BUNDLE_PARTS)/toolchain || go env GOVERSION GOOS GOARCH >$(BUNDLE_PARTS)/toolchain)

# This Kubernetes is the plane's, too: one workspace selects the versions that
# both are compiled with, so their packages compile once.
$(HYPERKUBE): BUNDLE_GOWORK := $(ROOT)/go.work
$(HYPERKUBE): go.work go.mod plane/go.mod sdk/go.mod

# $(eval $(call hyperkube_rule,file,version)); one rule for each version.
define hyperkube_rule
$(BUNDLE)/kubernetes/$(2)/hyperkube: BUNDLE_STEP := kubernetes $(2)
$(BUNDLE)/kubernetes/$(2)/hyperkube: $(call bundle_sources,kubernetes,$(1))
	$$(call bundle_build,kubernetes,providerless selinux_stub,$$(call bundle_k8s_ldflags_of,$(2)),$$@,.,$(filter-out go.mod,$(1)))
	@touch $$@
endef
$(foreach f,$(BUNDLE_KUBERNETES_FILES),$(eval $(call hyperkube_rule,$(f),$(call bundle_version,kubernetes,k8s.io/kubernetes,$(f)))))

$(BUNDLE_CONTAINERD_FILES) &: $(call bundle_sources,containerd)
	$(call bundle_build,containerd,no_btrfs no_zfs no_devmapper,-X github.com/containerd/containerd/v2/version.Version=$(BUNDLE_CONTAINERD),$(BUNDLE)/bin/,tool,,$(BUNDLE_CONTAINERD_FILES))
	@touch $(BUNDLE_CONTAINERD_FILES)

# runc enters namespaces before Go's runtime starts, which takes cgo; it is linked
# statically, so that it also runs where the machine's libraries are not.
$(BUNDLE)/bin/runc: BUNDLE_CGO := 1
$(BUNDLE)/bin/runc: $(call bundle_sources,runc)
	$(call bundle_build,runc,netgo osusergo seccomp,-X main.version=$(BUNDLE_RUNC:v%=%) -extldflags -static,$@,github.com/opencontainers/runc)
	@touch $@

$(BUNDLE_CNI_FILES): BUNDLE_STEP := cni
$(BUNDLE_CNI_FILES) &: $(call bundle_sources,network)
	$(call bundle_build,network,,-X github.com/containernetworking/plugins/pkg/utils/buildversion.BuildVersion=$(BUNDLE_CNI),$(BUNDLE)/cni/,tool,,$(BUNDLE_CNI_FILES))
	@touch $(BUNDLE_CNI_FILES)

$(BUNDLE)/cni/flannel: $(call bundle_sources,flannelcni)
	$(call bundle_build,flannelcni,,-X github.com/containernetworking/plugins/pkg/utils/buildversion.BuildVersion=$(BUNDLE_FLANNELCNI),$@,github.com/containernetworking/plugins/plugins/meta/flannel)
	@touch $@

$(BUNDLE_PARTS)/flanneld: $(call bundle_sources,network/flannel)
	$(call bundle_build,network/flannel,,,$@,.)
	@touch $@

# $(eval $(call paired_rule,directory,directory-version,file))
define paired_rule
$(BUNDLE_PARTS)/$(notdir $(2)): $(call bundle_sources,$(1),$(3))
	$$(call bundle_build,$(1),,,$$@,.,$(filter-out go.mod,$(3)))
	@touch $$@
endef
$(foreach p,$(BUNDLE_PAIRED_RULES),$(eval $(call paired_rule,$(firstword $(subst -, ,$(p))),$(firstword $(subst :, ,$(p))),$(lastword $(subst :, ,$(p))))))

$(BUNDLE_PARTS)/echo $(BUNDLE_PARTS)/pause: $(BUNDLE_PARTS)/%:
	$(call bundle_build,$*,,,$@,.)
	@touch $@
$(BUNDLE_PARTS)/echo: $(call bundle_sources,echo)
$(BUNDLE_PARTS)/pause: $(call bundle_sources,pause)

$(BUNDLE_PARTS)/nodebundle-build: BUNDLE_STEP := nodebundle-build
$(BUNDLE_PARTS)/nodebundle-build: $(call bundle_sources,build)
	$(call bundle_build,build,,,$@,.)
	@touch $@

deps: ## Install the Debian packages that the node bundle's build needs
	@hack/need.sh deps
