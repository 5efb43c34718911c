package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var (
	testAssembly = assembly{
		kubernetes: []string{"v1.35.4", "v1.36.3"},
		paired:     []string{"etcd-v3.6.6", "etcd-v3.6.8", "coredns-v1.13.1", "coredns-v1.14.2"},
	}
	kubeadmRefs = map[string][]string{
		"v1.35.4": {
			"registry.k8s.io/kube-apiserver:v1.35.4",
			"registry.k8s.io/kube-proxy:v1.35.4",
			"registry.k8s.io/coredns/coredns:v1.13.1",
			"registry.k8s.io/pause:3.10.2",
			"registry.k8s.io/etcd:3.6.6-0",
		},
		"v1.36.3": {
			"registry.k8s.io/kube-apiserver:v1.36.3",
			"registry.k8s.io/kube-proxy:v1.36.3",
			"registry.k8s.io/coredns/coredns:v1.14.2",
			"registry.k8s.io/pause:3.10.2",
			"registry.k8s.io/etcd:3.6.8-0",
		},
	}
)

func TestRecipesOfSeveralVersions(t *testing.T) {
	var all []recipe
	for _, version := range testAssembly.kubernetes {
		recipes, err := testAssembly.kubeadmRecipes(version, kubeadmRefs[version])
		if err != nil {
			t.Fatal(err)
		}
		names := shortNames(recipes)
		for _, ref := range kubeadmRefs[version] {
			if short := (recipe{ref: ref}).shortName(); names[short] != ref {
				t.Errorf("%s: %s is %q, want %q", version, short, names[short], ref)
			}
		}
		all = append(all, recipes...)
	}
	layers := map[string]string{}
	for _, r := range eachOnce(all) {
		if layers[r.ref] != "" {
			t.Errorf("%s is made twice", r.ref)
		}
		layers[r.ref] = strings.Join(r.layers, " ")
	}
	for ref, want := range map[string]string{
		"registry.k8s.io/kube-apiserver:v1.35.4":  "base kubernetes-v1.35.4",
		"registry.k8s.io/kube-proxy:v1.36.3":      "base kubernetes-v1.36.3 nft",
		"registry.k8s.io/etcd:3.6.6-0":            "base etcd-v3.6.6",
		"registry.k8s.io/etcd:3.6.8-0":            "base etcd-v3.6.8",
		"registry.k8s.io/coredns/coredns:v1.13.1": "base coredns-v1.13.1",
		"registry.k8s.io/pause:3.10.2":            "pause",
	} {
		if layers[ref] != want {
			t.Errorf("%s has the layers %q, want %q", ref, layers[ref], want)
		}
	}
}

func TestOwnRecipes(t *testing.T) {
	names := shortNames(ownRecipes(versions{Flannel: "v0.28.4"}))
	if len(names) != 2 || names["flannel"] != "slipway.dev/flannel:v0.28.4-slipway1" || names["echo"] != "slipway.dev/echo:v1" {
		t.Errorf("got %v", names)
	}
}

func TestKubeadmRecipeRefuses(t *testing.T) {
	for name, test := range map[string]struct{ ref, wantText string }{
		"another Kubernetes": {"registry.k8s.io/kube-proxy:v1.36.4", "v1.36.3"},
		"another etcd":       {"registry.k8s.io/etcd:3.6.9-0", "a file of nodebundle"},
		"another CoreDNS":    {"registry.k8s.io/coredns/coredns:v1.15.0", "a file of nodebundle/network"},
		"an image unheard of": {
			"registry.k8s.io/kube-dns:v1", "add a recipe",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := testAssembly.kubeadmRecipes("v1.36.3", []string{test.ref})
			if err == nil || !strings.Contains(err.Error(), test.wantText) {
				t.Errorf("got %v, want an error with %q", err, test.wantText)
			}
		})
	}
}

func TestKubeadmRecipeAcceptsAnEtcdImageRevision(t *testing.T) {
	if _, err := testAssembly.kubeadmRecipes("v1.36.3", []string{"registry.k8s.io/etcd:3.6.8-1"}); err != nil {
		t.Error(err)
	}
}

func TestRemoveStaleKeepsWhatIsBuilt(t *testing.T) {
	a := testAssembly
	a.bundle = t.TempDir()
	for _, dir := range []string{"images", "kubernetes/v1.34.1", "kubernetes/v1.35.4", "kubernetes/v1.36.3"} {
		if err := os.MkdirAll(filepath.Join(a.bundle, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.removeStale(); err != nil {
		t.Fatal(err)
	}
	left, _ := filepath.Glob(filepath.Join(a.bundle, "kubernetes", "*"))
	if _, err := os.Stat(filepath.Join(a.bundle, "images")); err == nil || len(left) != 2 {
		t.Errorf("left are %v (%v)", left, err)
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

// nft tells protocols by name only where it finds the names.
func TestNftKnowsProtocols(t *testing.T) {
	entries, err := nftLayer()
	if err != nil {
		t.Skip(err)
	}
	for _, e := range entries {
		if e.path == "etc/protocols" && strings.Contains(e.content, "\ntcp\t6\t") && strings.Contains(e.content, "\nudp\t17\t") {
			return
		}
	}
	t.Error("the layer has no etc/protocols with tcp and udp")
}
