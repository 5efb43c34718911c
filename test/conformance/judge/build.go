package judge

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"

	"github.com/slipway-dev/slipway/internal/testenv/level"
	"github.com/slipway-dev/slipway/internal/testenv/shared"
)

// module holds upstream's managers and their manifests.
const module = "sigs.k8s.io/cluster-api"

// Subject is a provider: a manager and its manifests.
type Subject struct {
	Name string
	// Package is the main package of the manager. It must have the flags
	// --webhook-port, --webhook-cert-dir and --health-addr, and take KUBECONFIG.
	Package string
	// CertDirFlag is what it calls --webhook-cert-dir, when it calls it otherwise.
	CertDirFlag string
	// Flags besides those.
	Flags []string
	// Namespace and ServiceAccount it runs under.
	Namespace, ServiceAccount string
	// Objects are the manifests.
	Objects []*unstructured.Unstructured

	// folder of the manifests in upstream's module; empty for other providers.
	folder string
}

// Elected are the flags by which a manager of this project is elected in a namespace. Its
// lease is long: nobody starts a manager anew that could not renew it in time on a loaded
// machine, as a Deployment does.
func Elected(namespace string) []string {
	return []string{
		"--leader-elect", "--leader-election-namespace=" + namespace,
		"--leader-elect-lease-duration=5m", "--leader-elect-renew-deadline=4m",
	}
}

var diagnostics = []string{"--diagnostics-address=127.0.0.1:0", "--insecure-diagnostics", "--leader-elect=false"}

// unlimited has upstream's managers reconcile an object as soon as something happens. By default
// they do so at most once a second, for a MachineHealthCheck every 15 s, and for a Machine that
// waits for infrastructure every 5 s, so that large clusters cost less; the deep suite has that.
const unlimited = "--feature-gates=ReconcilerRateLimiting=false"

func upstream(folder, namespace, account string, flags ...string) Subject {
	if !level.IsDeep() {
		flags = append(flags, unlimited)
	}
	return Subject{
		Name: "upstream-" + strings.ReplaceAll(folder, "/", "-"), Package: module + "/" + folder, folder: folder,
		Namespace: namespace, ServiceAccount: account, Flags: append(slices.Clone(diagnostics), flags...),
	}
}

// Upstream's providers.
var (
	Core             = upstream("core", "capi-system", "capi-manager", "--feature-gates=ClusterTopology=true")
	KubeadmBootstrap = upstream("bootstrap/kubeadm", "capi-kubeadm-bootstrap-system", "capi-kubeadm-bootstrap-manager")

	KubeadmControlPlane = upstream("controlplane/kubeadm", "capi-kubeadm-control-plane-system", "capi-kubeadm-control-plane-manager",
		"--feature-gates=ClusterTopology=true")
)

// Kit builds managers and renders upstream's manifests, each once for all planes.
type Kit struct {
	// Variables are those that an administrator sets; the others have their defaults.
	Variables map[string]string

	mu       sync.Mutex
	programs map[string]string
	rendered map[string][]*unstructured.Unstructured
}

// NewKit returns a kit with the defaults of all variables.
func NewKit() *Kit {
	return &Kit{programs: map[string]string{}, rendered: map[string][]*unstructured.Unstructured{}}
}

// Program builds a main package, once for all tests.
func (k *Kit) Program(ctx context.Context, pkg string) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if path, ok := k.programs[pkg]; ok {
		return path, nil
	}
	path, err := build(ctx, pkg)
	if err == nil {
		k.programs[pkg] = path
	}
	return path, err
}

func build(ctx context.Context, pkg string) (string, error) {
	if !strings.HasPrefix(pkg, module+"/") {
		return shared.Program(ctx, pkg)
	}
	return ofUpstream(pkg, func(path string) error { return shared.Build(ctx, path, pkg) })
}

// ofUpstream has a file made of upstream's module, which nobody changes: once for each choice of
// versions, beside the programs of KUBEBUILDER_ASSETS.
func ofUpstream(name string, do func(path string) error) (string, error) {
	versions, err := selected()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(runtime.Version() + "\n" + versions))
	path := filepath.Join(filepath.Dir(os.Getenv(assetsVariable)), "upstream", hex.EncodeToString(sum[:8]), strings.ReplaceAll(name, "/", "-"))
	return path, shared.Once(path, do)
}

// selected are the versions of all modules.
var selected = sync.OnceValues(func() (string, error) { return goList(context.Background(), "all") })

// goList is what the go command says of modules.
func goList(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "go", append([]string{"list", "-m"}, args...)...).Output()
	if err != nil {
		return "", fmt.Errorf("go list -m %s: %w\n%s", strings.Join(args, " "), err, stderr(err))
	}
	return strings.TrimSpace(string(out)), nil
}

// Render returns the manifests that a kustomization in a module makes, by kubectl, with
// variables as clusterctl replaces them.
func (k *Kit) Render(ctx context.Context, from, folder string) ([]*unstructured.Unstructured, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	key := from + "/" + folder
	if objects, ok := k.rendered[key]; ok {
		return objects, nil
	}
	data, err := kustomized(ctx, from, folder)
	if err != nil {
		return nil, err
	}
	data, err = Substitute(data, k.Variables)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	if k.rendered[key], err = Decode(data); err != nil {
		return nil, err
	}
	return k.rendered[key], nil
}

// kustomized is what a kustomization in a module makes.
func kustomized(ctx context.Context, from, folder string) ([]byte, error) {
	render := func() ([]byte, error) {
		dir, err := goList(ctx, "-f", "{{.Dir}}", from)
		if err != nil {
			return nil, err
		}
		return Kustomize(ctx, filepath.Join(dir, folder))
	}
	if from != module {
		return render()
	}
	path, err := ofUpstream(folder+".yaml", func(path string) error {
		data, err := render()
		if err != nil {
			return err
		}
		return os.WriteFile(path, data, 0o600)
	})
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}

// Substitute replaces variables as clusterctl does: by what is given, else by their defaults. One
// that has neither is an error.
func Substitute(text []byte, given map[string]string) ([]byte, error) {
	return yamlprocessor.NewSimpleProcessor().Process(text, func(name string) (string, error) {
		if value, found := given[name]; found {
			return value, nil
		}
		return "", fmt.Errorf("%s is not given", name)
	})
}

// manifests returns those of a subject; upstream's are what a release of it holds.
func (k *Kit) manifests(ctx context.Context, s Subject) ([]*unstructured.Unstructured, error) {
	if s.folder == "" {
		return s.Objects, nil
	}
	return k.Render(ctx, module, s.folder+"/config/default")
}
