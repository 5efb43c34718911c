package main

import (
	"maps"
	"slices"
	"testing"
)

func TestGroupsShareWhatVersionsHaveInCommon(t *testing.T) {
	groups := grouped([]recipe{
		{ref: "registry.k8s.io/kube-apiserver:v1.36.3"}, {ref: "registry.k8s.io/kube-proxy:v1.36.3"},
		{ref: "registry.k8s.io/etcd:3.6.8-0"}, {ref: "registry.k8s.io/coredns/coredns:v1.14.2"},
	})
	want := []string{"coredns-v1.14.2", "etcd-3.6.8-0", "kubernetes-v1.36.3"}
	if got := slices.Sorted(maps.Keys(groups)); !slices.Equal(got, want) {
		t.Errorf("groups %q, want %q", got, want)
	}
	if got := len(groups["kubernetes-v1.36.3"]); got != 2 {
		t.Errorf("%d images share the archive of Kubernetes, want 2", got)
	}
}
