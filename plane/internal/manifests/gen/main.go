// Command gen renders the manifests of the upstream Cluster API providers from
// the cluster-api module that this module requires, into zz_rendered beside
// it. It is run by go generate.
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/slipway-dev/slipway/internal/durable"
	"github.com/slipway-dev/slipway/plane/internal/manifests"
)

const (
	module = "sigs.k8s.io/cluster-api"
	outDir = "zz_rendered"
)

// inventory holds the CRD in which clusterctl keeps its inventory.
const inventory = "clusterctl"

// source is a kustomization of the module.
type source struct {
	name   string
	dir    string
	labels map[string]string
	// provider is nil for what belongs to clusterctl itself.
	provider *manifests.Provider
}

var sources = []source{
	{
		name: inventory, dir: "cmd/clusterctl/config/crd",
		labels: map[string]string{clusterctlv1.ClusterctlCoreLabel: clusterctlv1.ClusterctlCoreLabelInventoryValue},
	},
	{name: manifests.Core.Label(), dir: "core/config/default", labels: manifests.Core.Labels(), provider: &manifests.Core},
	{
		name: manifests.BootstrapKubeadm.Label(), dir: "bootstrap/kubeadm/config/default",
		labels: manifests.BootstrapKubeadm.Labels(), provider: &manifests.BootstrapKubeadm,
	},
	{
		name: manifests.ControlPlaneKubeadm.Label(), dir: "controlplane/kubeadm/config/default",
		labels: manifests.ControlPlaneKubeadm.Labels(), provider: &manifests.ControlPlaneKubeadm,
	},
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run() error {
	dir, version, err := findModule()
	if err != nil {
		return err
	}
	for _, s := range sources {
		lines, err := s.render(filepath.Join(dir, s.dir))
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		if s.provider != nil {
			p := *s.provider
			p.Version = version
			obj, err := p.Inventory()
			if err != nil {
				return err
			}
			lines = append(lines, obj.Raw)
		}
		if err := write(filepath.Join(outDir, s.name+".jsonl.gz"), lines); err != nil {
			return err
		}
	}
	return nil
}

func findModule() (dir, version string, err error) {
	cmd := exec.Command("go", "list", "-m", "-f", "{{.Dir}}\n{{.Version}}", module)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", "", fmt.Errorf("go list %s: %w", module, err)
	}
	dir, version, _ = strings.Cut(strings.TrimSpace(string(out)), "\n")
	if dir == "" || version == "" {
		return "", "", fmt.Errorf("the module cache has no %s: run `go mod download %s`", module, module)
	}
	return dir, version, nil
}

// render returns the objects the plane installs, as JSON, in a stable order.
func (s source) render(dir string) ([][]byte, error) {
	resMap, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return nil, err
	}
	var lines [][]byte
	for _, r := range resMap.Resources() {
		if !manifests.Installable(r.GetKind()) {
			continue
		}
		raw, err := s.finish(r)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", r.GetKind(), r.GetName(), err)
		}
		lines = append(lines, raw)
	}
	slices.SortFunc(lines, bytes.Compare)
	return lines, nil
}

// finish adds the labels that clusterctl adds on installation, and drops what
// asks cert-manager, which the plane does not have, for certificates.
func (s source) finish(r *resource.Resource) ([]byte, error) {
	obj, err := r.Map()
	if err != nil {
		return nil, err
	}
	meta, ok := obj["metadata"].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("no metadata")
	}
	labels, _ := meta["labels"].(map[string]any)
	if labels == nil {
		labels = map[string]any{}
	}
	for k, v := range s.labels {
		labels[k] = v
	}
	meta["labels"] = labels
	if annotations, ok := meta["annotations"].(map[string]any); ok {
		delete(annotations, "cert-manager.io/inject-ca-from")
	}
	delete(meta, "creationTimestamp")
	delete(obj, "status")
	return json.Marshal(obj)
}

// write leaves a file alone that has the lines: others may be reading it.
func write(path string, lines [][]byte) error {
	var buf bytes.Buffer
	zw, err := gzip.NewWriterLevel(&buf, gzip.BestCompression)
	if err != nil {
		return err
	}
	for _, l := range lines {
		if _, err := zw.Write(append(l, '\n')); err != nil {
			return err
		}
	}
	if err := zw.Close(); err != nil {
		return err
	}
	if present, err := os.ReadFile(path); err == nil && bytes.Equal(present, buf.Bytes()) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return durable.Write(path, buf.Bytes(), 0o644)
}
