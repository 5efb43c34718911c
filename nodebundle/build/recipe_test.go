package main

import (
	"slices"
	"strings"
	"testing"
)

var (
	testVersions = versions{Kubernetes: "v1.36.3", Etcd: "v3.6.8", CoreDNS: "v1.14.2", Flannel: "v0.28.4"}
	kubeadmRefs  = []string{
		"registry.k8s.io/kube-apiserver:v1.36.3",
		"registry.k8s.io/kube-controller-manager:v1.36.3",
		"registry.k8s.io/kube-scheduler:v1.36.3",
		"registry.k8s.io/kube-proxy:v1.36.3",
		"registry.k8s.io/coredns/coredns:v1.14.2",
		"registry.k8s.io/pause:3.10.2",
		"registry.k8s.io/etcd:3.6.8-0",
	}
)

func TestRecipesCoverKubeadmAndOurs(t *testing.T) {
	all, err := recipes(kubeadmRefs, testVersions)
	if err != nil {
		t.Fatal(err)
	}
	names := shortNames(all)
	for _, ref := range append(slices.Clone(kubeadmRefs), "ghcr.io/flannel-io/flannel:v0.28.4-slipway1", "slipway.dev/echo:v1") {
		if short := (recipe{ref: ref}).shortName(); names[short] != ref {
			t.Errorf("%s is %q, want %q", short, names[short], ref)
		}
	}
	if len(names) != len(kubeadmRefs)+2 {
		t.Errorf("got %d images: %v", len(names), names)
	}
}

func TestKubeadmRecipeRefuses(t *testing.T) {
	for name, test := range map[string]struct{ ref, wantText string }{
		"another Kubernetes": {"registry.k8s.io/kube-proxy:v1.36.4", "v1.36.3"},
		"another etcd":       {"registry.k8s.io/etcd:3.6.9-0", "nodebundle/etcd/go.mod"},
		"another CoreDNS":    {"registry.k8s.io/coredns/coredns:v1.15.0", "nodebundle/coredns/go.mod"},
		"an image unheard of": {
			"registry.k8s.io/kube-dns:v1", "add a recipe",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := kubeadmRecipe(test.ref, testVersions)
			if err == nil || !strings.Contains(err.Error(), test.wantText) {
				t.Errorf("got %v, want an error with %q", err, test.wantText)
			}
		})
	}
}

func TestKubeadmRecipeAcceptsAnEtcdImageRevision(t *testing.T) {
	if _, err := kubeadmRecipe("registry.k8s.io/etcd:3.6.8-1", testVersions); err != nil {
		t.Error(err)
	}
}

func TestSplitTag(t *testing.T) {
	for ref, want := range map[string][2]string{
		"registry.k8s.io/pause:3.10.2": {"registry.k8s.io/pause", "3.10.2"},
		"localhost:5000/pause":         {"localhost:5000/pause", ""},
		"localhost:5000/pause:1":       {"localhost:5000/pause", "1"},
		"pause":                        {"pause", ""},
	} {
		repository, tag := splitTag(ref)
		if repository != want[0] || tag != want[1] {
			t.Errorf("%s: got %q and %q, want %q", ref, repository, tag, want)
		}
	}
}
