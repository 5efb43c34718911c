//go:build e2e

package upstream

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/gomega"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"sigs.k8s.io/cluster-api/test/e2e"
	"sigs.k8s.io/cluster-api/test/framework/clusterctl"
)

// repositoryRoot is this repository's, as seen from the package's folder.
const repositoryRoot = "../../.."

// flavors are rendered out of the released templates by testdata/flavors: the folder, and
// the file as clusterctl wants it.
var flavors = map[string]string{
	"default":             "cluster-template.yaml",
	"kcp-adoption":        "cluster-template-kcp-adoption.yaml",
	"kcp-remediation":     "cluster-template-kcp-remediation.yaml",
	"class":               "clusterclass-slipway.yaml",
	"machinepool":         "cluster-template-machinepool.yaml",
	"md-remediation":      "cluster-template-md-remediation.yaml",
	"taints":              "cluster-template-taints.yaml",
	"topology":            "cluster-template-topology.yaml",
	"topology-deployment": "cluster-template-topology-deployment.yaml",
	"topology-taints":     "cluster-template-topology-taints.yaml",
}

// config is what upstream's suite reads from a file: a clusterctl repository of the versions
// that the plane runs, its variables, and upstream's own intervals.
func config(ctx context.Context, c client.Client) *clusterctl.E2EConfig {
	sources := filepath.Join(*artifacts, "sources")
	Expect(os.MkdirAll(sources, 0o750)).To(Succeed())
	config := &clusterctl.E2EConfig{
		ManagementClusterName: "slipway",
		Variables: map[string]string{
			e2e.KubernetesVersion:                 os.Getenv(e2e.KubernetesVersion),
			e2e.KubernetesVersionUpgradeFrom:      os.Getenv(e2e.KubernetesVersionUpgradeFrom),
			e2e.KubernetesVersionUpgradeTo:        os.Getenv(e2e.KubernetesVersion),
			e2e.CNIPath:                           abs(filepath.Join(repositoryRoot, "templates/local/flannel.yaml")),
			e2e.IPFamily:                          "IPv4",
			"SLIPWAY_CONTROL_PLANE_ENDPOINT_HOST": "10.88.0.200",
		},
		Intervals: upstreamIntervals(),
	}
	providers := &clusterctlv1.ProviderList{}
	Expect(c.List(ctx, providers)).To(Succeed())
	for _, p := range providers.Items {
		source := clusterctl.ProviderVersionSource{
			// templates are taken of the version that the Provider object names
			Name: p.Version, Type: clusterctl.URLSource, Contract: "v1beta2",
			// nothing is installed out of the repository: the plane runs already
			Value: "file://" + write(sources, p.Name+".yaml", fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: %s\n", p.Namespace)),
			Files: []clusterctl.Files{{SourcePath: filepath.Join(sourceOf("sigs.k8s.io/cluster-api"), "metadata.yaml"), TargetName: "metadata.yaml"}},
		}
		if p.Type == string(clusterctlv1.InfrastructureProviderType) {
			source.Files = append(rendered(sources), clusterctl.Files{SourcePath: abs(filepath.Join(repositoryRoot, "metadata.yaml")), TargetName: "metadata.yaml"})
		}
		config.Providers = append(config.Providers, clusterctl.ProviderConfig{Name: p.ProviderName, Type: p.Type, Versions: []clusterctl.ProviderVersionSource{source}})
	}
	config.Defaults()
	Expect(config.Validate()).To(Succeed())
	return config
}

// rendered are the flavors, each a kustomization of one that is released.
func rendered(folder string) []clusterctl.Files {
	files := make([]clusterctl.Files, 0, len(flavors))
	for flavor, name := range flavors {
		files = append(files, clusterctl.Files{SourcePath: write(folder, name, kustomize(filepath.Join("testdata/flavors", flavor))), TargetName: name})
	}
	return files
}

// kustomize builds a folder; one without a kustomization has steps, which make the same
// objects anew, and so are built one by one.
func kustomize(dir string) string {
	if _, err := os.Stat(filepath.Join(dir, "kustomization.yaml")); errors.Is(err, fs.ErrNotExist) {
		steps, err := filepath.Glob(filepath.Join(dir, "*"))
		Expect(err).NotTo(HaveOccurred())
		Expect(steps).NotTo(BeEmpty(), "flavor %s", dir)
		built := make([]string, 0, len(steps))
		for _, step := range steps {
			built = append(built, kustomize(step))
		}
		return strings.Join(built, "---\n")
	}
	cmd := exec.CommandContext(ctx, filepath.Join(*bin, "kubectl"), "kustomize", "--load-restrictor", "LoadRestrictionsNone", dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	Expect(err).NotTo(HaveOccurred(), "flavor %s", dir)
	return string(out)
}

// upstreamIntervals are those of upstream's own suite.
func upstreamIntervals() map[string][]string {
	data, err := os.ReadFile(filepath.Join(sourceOf("sigs.k8s.io/cluster-api/test"), "e2e/config/docker.yaml"))
	Expect(err).NotTo(HaveOccurred())
	config := clusterctl.E2EConfig{}
	Expect(yaml.Unmarshal(data, &config)).To(Succeed())
	Expect(config.Intervals).NotTo(BeEmpty())
	return config.Intervals
}

func sourceOf(module string) string {
	dir, err := moduleDir(module)
	Expect(err).NotTo(HaveOccurred())
	return dir
}

func write(folder, name, content string) string {
	path := filepath.Join(folder, name)
	Expect(os.WriteFile(path, []byte(content), 0o600)).To(Succeed())
	return path
}

func abs(path string) string {
	path, err := filepath.Abs(path)
	Expect(err).NotTo(HaveOccurred())
	return path
}
