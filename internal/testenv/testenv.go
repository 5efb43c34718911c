package testenv

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/config"
)

// assetsVariable names the directory of the API server's programs. `make test` gives it a name
// that changes with them.
const assetsVariable = "KUBEBUILDER_ASSETS"

// Env is a running API server.
type Env struct {
	Config *rest.Config
	Scheme *runtime.Scheme
	// Client reads and writes without a cache.
	Client client.WithWatch
	// WebhookOptions tell a webhook server where the API server will call it.
	WebhookOptions envtest.WebhookInstallOptions
	// Kubeconfig is a kubeconfig file with the rights of Config.
	Kubeconfig []byte
	// ClientCAFile is the CA of the certificates of clients, those of User among them.
	ClientCAFile string

	server *envtest.Environment
	// others ends what was begun beside the API server.
	others []func()
}

// User has a client certificate made, and returns what reaches the API server with it.
func (e *Env) User(t testing.TB, name string, groups ...string) *rest.Config {
	t.Helper()
	user, err := e.server.AddUser(envtest.User{Name: name, Groups: groups}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return user.Config()
}

// Main runs the tests of a package with one API server between them; start gets it
// before the first test. Under -short nothing is started, and such tests must skip
// (see Skip). It returns the exit code for os.Exit.
func Main(m *testing.M, addToScheme func(*runtime.Scheme) error, start func(*Env) error) int {
	flag.Parse()
	if testing.Short() {
		return m.Run()
	}
	env, stop, err := run(addToScheme)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testenv:", err)
		return 1
	}
	defer stop()
	defer env.stopOthers()
	if err := start(env); err != nil {
		fmt.Fprintln(os.Stderr, "testenv:", err)
		return 1
	}
	return m.Run()
}

// Skip skips a test that needs the API server when there is none. Otherwise the test depends on
// the server's programs from here on: `go test` reuses a result only while what a test itself
// reads is unchanged, and Main has started the server before any test.
func Skip(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs an API server, skipped by -short")
	}
	dependOnPrograms(t)
}

// dependOnPrograms has the go command see what a test depends on: the name of the directory, which
// `make test` makes of its content, or else the files in it.
func dependOnPrograms(t testing.TB) {
	t.Helper()
	dir := os.Getenv(assetsVariable)
	if !unnamed {
		return
	}
	for _, program := range []string{"kube-apiserver", "etcd"} {
		if _, err := os.Stat(filepath.Join(dir, program)); err != nil {
			t.Fatal(err)
		}
	}
}

// unnamed is true if nobody set assetsVariable before the tests.
var unnamed bool

func run(addToScheme func(*runtime.Scheme) error) (*Env, func(), error) {
	scheme := runtime.NewScheme()
	if err := addToScheme(scheme); err != nil {
		return nil, nil, err
	}
	kinds, err := kinds()
	if err != nil {
		return nil, nil, err
	}
	webhooks, err := decode[admissionv1.ValidatingWebhookConfiguration](config.FS, "webhook/*.yaml")
	if err != nil {
		return nil, nil, err
	}
	env := &Env{Scheme: scheme, WebhookOptions: envtest.WebhookInstallOptions{ValidatingWebhooks: webhooks}}
	stop, err := env.start(&envtest.Environment{}, kinds)
	return env, stop, err
}

// Without starts another API server with the same kinds, but without an API of Kubernetes,
// such as batch/v1, until the test ends.
func (e *Env) Without(t *testing.T, api string) *Env {
	t.Helper()
	kinds, err := kinds()
	if err != nil {
		t.Fatal(err)
	}
	server := &envtest.Environment{}
	server.ControlPlane.GetAPIServer().Configure().Append("runtime-config", api+"=false")
	other := &Env{Scheme: e.Scheme}
	stop, err := other.start(server, kinds)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return other
}

// kinds are ours and those of Cluster API.
func kinds() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	root, err := repositoryRoot()
	if err != nil {
		return nil, err
	}
	capi, err := moduleDir(root, "sigs.k8s.io/cluster-api")
	if err != nil {
		return nil, err
	}
	if err := findAssets(root); err != nil {
		return nil, err
	}
	crds, err := decode[apiextensionsv1.CustomResourceDefinition](config.FS, "crd/bases/*.yaml")
	if err != nil {
		return nil, err
	}
	lifecycle, err := decode[apiextensionsv1.CustomResourceDefinition](config.Lifecycle, "lifecycle/crd/bases/*.yaml")
	if err != nil {
		return nil, err
	}
	all := slices.Concat(crds, lifecycle)
	for _, provider := range []string{"core", "bootstrap/kubeadm", "controlplane/kubeadm"} {
		upstream, err := decode[apiextensionsv1.CustomResourceDefinition](os.DirFS(filepath.Join(capi, provider, "config", "crd", "bases")), "*.yaml")
		if err != nil {
			return nil, err
		}
		all = append(all, upstream...)
	}
	return all, nil
}

// decode reads our manifests as they are compiled in, so that the cache of `go
// test` knows when they change.
func decode[T any](files fs.FS, pattern string) ([]*T, error) {
	names, err := fs.Glob(files, pattern)
	if err != nil {
		return nil, err
	}
	var objects []*T
	for _, name := range names {
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		object := new(T)
		if err := yaml.UnmarshalStrict(data, object); err != nil {
			return nil, fmt.Errorf("decode %s: %w", name, err)
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// start fills in the rest of the Env. What it returns stops the API server.
func (e *Env) start(server *envtest.Environment, kinds []*apiextensionsv1.CustomResourceDefinition) (func(), error) {
	// From its cache, an API server answers a list after each write of another kind up to 100 ms
	// later: the cache waits until etcd tells how far it is. Reconcilers that are called one
	// after the other wait for that most of their time.
	server.ControlPlane.GetAPIServer().Configure().Set("watch-cache", "false")
	restConfig, end, err := StartServerWith(server, kinds)
	if err != nil {
		return nil, err
	}
	stop := func() {
		if err := end(); err != nil {
			fmt.Fprintln(os.Stderr, "testenv: stop the API server:", err)
		}
	}
	restConfig.QPS = -1
	e.Config, e.Kubeconfig, e.server = restConfig, server.KubeConfig, server
	e.ClientCAFile = filepath.Join(server.ControlPlane.GetAPIServer().CertDir, "client-cert-auth-ca.crt")
	if e.Client, err = client.NewWithWatch(restConfig, client.Options{Scheme: e.Scheme}); err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}

// Namespace makes a namespace for one test. There is no namespace controller, so
// it isn't deleted.
func (e *Env) Namespace(t testing.TB) string {
	t.Helper()
	dependOnPrograms(t)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	if err := e.Client.Create(context.Background(), ns); err != nil {
		t.Fatalf("create a namespace: %v", err)
	}
	return ns.Name
}

func findAssets(root string) error {
	dir := os.Getenv(assetsVariable)
	if dir == "" {
		unnamed, dir = true, filepath.Join(root, "bin", "envtest")
		if err := os.Setenv(assetsVariable, dir); err != nil {
			return err
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "kube-apiserver")); err != nil {
		return fmt.Errorf("no kube-apiserver in %s: run `make envtest`, or the tests with -short: %w", dir, err)
	}
	return nil
}

func repositoryRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}

func moduleDir(root, module string) (string, error) {
	command := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module)
	command.Dir = root
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("find the sources of %s: %w", module, err)
	}
	return strings.TrimSpace(string(out)), nil
}
