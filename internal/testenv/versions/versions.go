// Package versions has the Kubernetes versions of the node bundle, as nodebundle/ requires them: the one list that
// tests with real programs, their upgrades and the documents go by.
package versions

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

// Kubernetes is a version of the node bundle.
type Kubernetes struct {
	// Version has a leading v.
	Version string
	// Etcd and CoreDNS are the versions that its kubeadm names, with a leading v.
	Etcd, CoreDNS string
}

// Pair is an upgrade to the next minor version.
type Pair struct{ From, To Kubernetes }

// String names a pair as a test.
func (p Pair) String() string { return p.From.Version + " to " + p.To.Version }

// All are the versions from old to new. It panics where the working directory is in no work tree.
func All() []Kubernetes {
	root, err := workTree()
	if err != nil {
		panic(err)
	}
	files, err := filepath.Glob(filepath.Join(root, "nodebundle/kubernetes/*.mod"))
	if err != nil {
		panic(err)
	}
	var all []Kubernetes
	for _, file := range files {
		name := filepath.Base(file)
		all = append(all, Kubernetes{
			Version: required(file, "k8s.io/kubernetes"),
			Etcd:    required(own(root, "nodebundle", name), "go.etcd.io/etcd/server/v3"),
			CoreDNS: required(own(root, "nodebundle/network", name), "github.com/coredns/coredns"),
		})
	}
	slices.SortFunc(all, func(a, b Kubernetes) int { return semver.Compare(a.Version, b.Version) })
	return all
}

// Plane is the version whose libraries the plane is made of, and the default of its clusters. It is in every node
// bundle.
func Plane() Kubernetes {
	root, err := workTree()
	if err != nil {
		panic(err)
	}
	version := required(filepath.Join(root, "nodebundle/kubernetes/go.mod"), "k8s.io/kubernetes")
	all := All()
	return all[slices.IndexFunc(all, func(k Kubernetes) bool { return k.Version == version })]
}

// Pairs are the upgrades from each version to the next one, from old to new.
func Pairs() []Pair {
	all := All()
	pairs := make([]Pair, 0, len(all))
	for i := range all[1:] {
		pairs = append(pairs, Pair{all[i], all[i+1]})
	}
	return pairs
}

// ToPlane is the upgrade to the version of the plane.
func ToPlane() Pair {
	pairs, plane := Pairs(), Plane()
	return pairs[slices.IndexFunc(pairs, func(p Pair) bool { return p.To == plane })]
}

// own is the file that a module of the node bundle has for a Kubernetes version, or its go.mod.
func own(root, module, name string) string {
	file := filepath.Join(root, module, name)
	if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
		return filepath.Join(root, module, "go.mod")
	}
	return file
}

func required(file, path string) string {
	content, err := os.ReadFile(file)
	if err != nil {
		panic(err)
	}
	module, err := modfile.Parse(file, content, nil)
	if err != nil {
		panic(err)
	}
	for _, r := range module.Require {
		if r.Mod.Path == path {
			return r.Mod.Version
		}
	}
	panic(fmt.Errorf("%s does not require %s", file, path))
}

func workTree() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no folder above this test has a go.work: run it in the repository")
		}
	}
}
