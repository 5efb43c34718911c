package management

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// kubeconfig writes one with the contexts, the first of them the current one. The
// server of a context has its name.
func kubeconfig(t *testing.T, contexts ...string) string {
	t.Helper()
	kc := clientcmdapi.NewConfig()
	for _, name := range contexts {
		kc.Clusters[name] = &clientcmdapi.Cluster{Server: "https://" + name + ".example"}
		kc.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: "t"}
		kc.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name, Namespace: "of-" + name}
	}
	if len(contexts) > 0 {
		kc.CurrentContext = contexts[0]
	}
	file := filepath.Join(t.TempDir(), "config")
	if err := clientcmd.WriteToFile(*kc, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// stateDir is all that finding a plane asks of it.
type stateDir struct {
	Plane
	dir string
}

func (s stateDir) Dir() string                   { return s.dir }
func (s stateDir) Config() (*rest.Config, error) { return nil, ErrNotRunning }

func found(dir string) func() (Plane, error) {
	return func() (Plane, error) { return stateDir{dir: dir}, nil }
}

func nothing() (Plane, error) { return nil, &NoPlaneError{errNothing} }

var errNothing = errors.New("no plane here: run `slipway up` first")

func TestFindOrder(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	dir := t.TempDir()
	own := found(dir)
	named, env := kubeconfig(t, "named", "second"), kubeconfig(t, "env", "third")
	// A workload cluster of the plane is no other management cluster.
	workload := filepath.Join(dir, "clusters", "default", "a.kubeconfig")
	for name, tc := range map[string]struct {
		env    string
		choice Choice
		// plane or the server of the cluster that is found.
		want, passedOver string
	}{
		"a file wins over all":              {env, Choice{Kubeconfig: named, Plane: own, PlaneGiven: true}, "https://named.example", ""},
		"a context of the file":             {env, Choice{Kubeconfig: named, Context: "second", Plane: own}, "https://second.example", ""},
		"a context alone is of KUBECONFIG":  {env, Choice{Context: "third", Plane: own}, "https://third.example", ""},
		"a plane that is named":             {env, Choice{Plane: own, PlaneGiven: true}, "plane", ""},
		"the plane of this machine":         {"", Choice{Plane: own}, "plane", ""},
		"the plane comes before KUBECONFIG": {env, Choice{Plane: own}, "plane", env},
		"the plane's own kubeconfigs":       {filepath.Join(dir, "kubeconfig") + ":" + workload, Choice{Plane: own}, "plane", ""},
		"KUBECONFIG where there is none":    {env, Choice{Plane: nothing}, "https://env.example", ""},
		"a program without planes":          {env, Choice{}, "https://env.example", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(clientcmd.RecommendedConfigPathEnvVar, tc.env)
			c, err := Find(tc.choice)
			if err != nil {
				t.Fatal(err)
			}
			got, namespace := "plane", "default"
			if c.Plane == nil {
				config, err := c.Config()
				if err != nil {
					t.Fatal(err)
				}
				got, namespace = config.Host, "of-"+c.Context
				if !strings.Contains(c.Name, c.Context) || !strings.Contains(c.Name, "config") {
					t.Errorf("its name is %s", c.Name)
				}
			}
			if got != tc.want || c.PassedOver != tc.passedOver || c.Namespace != namespace {
				t.Errorf("found %s, namespace %s, passed over %q", got, c.Namespace, c.PassedOver)
			}
		})
	}
}

func TestFindRefuses(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	file := kubeconfig(t, "a")
	noCurrent := kubeconfig(t)
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		env    string
		choice Choice
		want   []string
	}{
		"nothing at all":           {"", Choice{Plane: nothing}, []string{"slipway up", "--kubeconfig"}},
		"nothing, and no planes":   {"", Choice{}, []string{"no management cluster", "--kubeconfig", "KUBECONFIG"}},
		"no plane where it should": {file, Choice{Plane: nothing, PlaneGiven: true}, []string{"no plane here"}},
		"no such file":             {file, Choice{Kubeconfig: "/nowhere"}, []string{"/nowhere"}},
		"no kubeconfig":            {file, Choice{Kubeconfig: broken}, []string{broken}},
		"no such context":          {file, Choice{Context: "b"}, []string{`no context "b"`, file, "get-contexts"}},
		"no such context of it":    {"", Choice{Kubeconfig: file, Context: "b"}, []string{`no context "b"`, file}},
		"no current context":       {"", Choice{Kubeconfig: noCurrent}, []string{noCurrent, "--context"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(clientcmd.RecommendedConfigPathEnvVar, tc.env)
			c, err := Find(tc.choice)
			if err == nil {
				t.Fatalf("found %s", c.Name)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v does not say %s", err, want)
				}
			}
		})
	}
}

// A plane that only root may open must not make a command mean another cluster.
func TestFindDoesNotDependOnRights(t *testing.T) {
	refused := errors.New("the plane belongs to root")
	t.Setenv(clientcmd.RecommendedConfigPathEnvVar, kubeconfig(t, "a"))
	if c, err := Find(Choice{Plane: func() (Plane, error) { return nil, refused }}); err == nil || errors.Is(err, ErrNone) || !strings.Contains(err.Error(), "--kubeconfig names another") {
		t.Errorf("found %v, %v", c, err)
	}
}

func TestServersThatNoHostReaches(t *testing.T) {
	for _, server := range []string{"", "api.example:6443", "http://api.example", "https://127.0.0.1:36443", "https://[::1]:1", "https://localhost", "https://0.0.0.0:1"} {
		if err := checkServer(server); err == nil || !strings.Contains(err.Error(), "--server") {
			t.Errorf("%q: %v", server, err)
		}
	}
	if err := checkServer("https://10.88.0.1:6443"); err != nil {
		t.Error(err)
	}
}

func TestGrant(t *testing.T) {
	hosts, secrets := Right{Verb: "list", Namespaced: true, User: "ann"}, Right{Verb: "get", Namespaced: true, Namespace: "prod", Name: "a-kubeconfig", User: "ann"}
	hosts.Resource.Group, hosts.Resource.Resource = "infrastructure.slipway.dev", "hosts"
	secrets.Resource.Resource = "secrets"
	got := grant([]Right{hosts, secrets})
	want := `
Where your rights are those of one namespace, name it with -n.
An administrator of that cluster gives what is missing with:
  kubectl create clusterrole slipway-list --verb=list --resource=hosts.infrastructure.slipway.dev
  kubectl create clusterrolebinding slipway-list --clusterrole=slipway-list --user=ann
  kubectl create role slipway-get-a-kubeconfig -n prod --verb=get --resource=secrets --resource-name=a-kubeconfig
  kubectl create rolebinding slipway-get-a-kubeconfig -n prod --role=slipway-get-a-kubeconfig --user=ann`
	if got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	if got := subject("system:serviceaccount:ci:deploy"); got != "--serviceaccount=ci:deploy" {
		t.Errorf("got %s", got)
	}
	if got := subject("ann; rm -rf 'x'"); got != `--user='ann; rm -rf '\''x'\'''` {
		t.Errorf("got %s", got)
	}
}

func TestExplain(t *testing.T) {
	c := &Cluster{Name: `context "a" of f`}
	other := errors.New("other")
	for _, tc := range []struct {
		err  error
		want []string
	}{
		{fmt.Errorf("list: %w", &meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "Host"}}), []string{"no management cluster with Slipway", "clusterctl init", "--context"}},
		{apierrors.NewUnauthorized("no"), []string{"does not accept your credential"}},
		{fmt.Errorf("list: %w", &url.Error{Op: "Get", URL: "https://a", Err: other}), []string{"does not answer"}},
	} {
		got := c.Explain(tc.err)
		for _, want := range append(tc.want, c.Name) {
			if !errors.Is(got, tc.err) || !strings.Contains(got.Error(), want) {
				t.Errorf("%v does not say %q", got, want)
			}
		}
	}
	for _, err := range []error{nil, other, ErrNotRunning} {
		if got := c.Explain(err); got != err { //nolint:errorlint // it must be the very same
			t.Errorf("Explain(%v) = %v", err, got)
		}
	}
}
