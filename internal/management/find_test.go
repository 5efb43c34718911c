package management

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

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

// Kubeconfig is the one of the context "own".
func (s stateDir) Kubeconfig() (Kubeconfig, error) {
	data, err := os.ReadFile(filepath.Join(s.dir, "kubeconfig"))
	return Kubeconfig{Data: data}, err
}

func found(dir string) func() (Plane, error) {
	return func() (Plane, error) { return stateDir{dir: dir}, nil }
}

func nothing() (Plane, error) { return nil, &NoPlaneError{errNothing} }

var errNothing = errors.New("no plane here: run `slipway up` first")

// named is what --context, --user or --cluster say.
func named(context, user, cluster string) clientcmd.ConfigOverrides {
	return clientcmd.ConfigOverrides{CurrentContext: context, Context: clientcmdapi.Context{AuthInfo: user, Cluster: cluster}}
}

// What is named comes first, then what kubectl would use, and then the plane of this machine.
func TestFindOrder(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	dir := t.TempDir()
	own := found(dir)
	file, env, current := kubeconfig(t, "named", "second"), kubeconfig(t, "env", "third"), kubeconfig(t, "current")
	if err := os.Rename(kubeconfig(t, "own"), filepath.Join(dir, "kubeconfig")); err != nil {
		t.Fatal(err)
	}
	refused := func() (Plane, error) { return nil, errors.New("only root may use it") }
	for name, tc := range map[string]struct {
		env, current string
		choice       Choice
		// plane or the server of the cluster that is found.
		want string
	}{
		"a file wins over all":                  {env, current, Choice{Kubeconfig: file, Plane: own, PlaneGiven: true}, "https://named.example"},
		"a context of the file":                 {env, "", Choice{Kubeconfig: file, Overrides: named("second", "", ""), Plane: own}, "https://second.example"},
		"a context alone is of KUBECONFIG":      {env, "", Choice{Overrides: named("third", "", ""), Plane: own}, "https://third.example"},
		"a user is of a kubeconfig":             {env, "", Choice{Overrides: named("", "third", ""), Plane: own, PlaneGiven: true}, "https://env.example"},
		"a cluster is of a kubeconfig":          {env, "", Choice{Overrides: named("", "", "third"), Plane: own, PlaneGiven: true}, "https://third.example"},
		"a plane that is named":                 {env, current, Choice{Plane: own, PlaneGiven: true}, "plane"},
		"KUBECONFIG comes before the plane":     {env, current, Choice{Plane: own}, "https://env.example"},
		"so does a current context":             {"", current, Choice{Plane: own}, "https://current.example"},
		"and both before a plane of root":       {env, "", Choice{Plane: refused}, "https://env.example"},
		"a file without a current context":      {"", kubeconfig(t), Choice{Plane: own}, "plane"},
		"the plane of this machine":             {"", "", Choice{Plane: own}, "plane"},
		"the plane's own kubeconfig is it":      {filepath.Join(dir, "kubeconfig"), current, Choice{Plane: own}, "plane"},
		"its context in another file, too":      {filepath.Join(dir, "kubeconfig") + ":" + env, "", Choice{Plane: own}, "plane"},
		"KUBECONFIG where there is none":        {env, "", Choice{Plane: nothing}, "https://env.example"},
		"a current context where there is none": {"", current, Choice{Plane: nothing}, "https://current.example"},
		"a program without planes":              {env, "", Choice{}, "https://env.example"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("HOME", t.TempDir())
			if tc.current != "" {
				at := filepath.Join(os.Getenv("HOME"), ".kube", "config")
				data, err := os.ReadFile(tc.current)
				if err := errors.Join(err, os.Mkdir(filepath.Dir(at), 0o700), os.WriteFile(at, data, 0o600)); err != nil {
					t.Fatal(err)
				}
				restore(t, &clientcmd.RecommendedHomeFile, at)
			} else {
				restore(t, &clientcmd.RecommendedHomeFile, filepath.Join(os.Getenv("HOME"), "none"))
			}
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
				if !strings.Contains(c.Name, c.Context) || !strings.Contains(c.Name, "config") || !strings.Contains(c.Target(), "("+config.Host+")") {
					t.Errorf("its name is %s", c.Target())
				}
			}
			if got != tc.want || c.Namespace != namespace {
				t.Errorf("found %s, namespace %s", got, c.Namespace)
			}
		})
	}
}

// restore sets a variable for a test.
func restore(t *testing.T, variable *string, value string) {
	t.Helper()
	before := *variable
	t.Cleanup(func() { *variable = before })
	*variable = value
}

// What a user says about requests holds for a plane, too.
func TestOverridesOfAPlane(t *testing.T) {
	overrides := clientcmd.ConfigOverrides{Timeout: "3s", AuthInfo: clientcmdapi.AuthInfo{Impersonate: "ann", ImpersonateGroups: []string{"dev"}}}
	config, err := withOverrides(&rest.Config{Host: "https://plane"}, &overrides)
	if err != nil || config.Host != "https://plane" || config.Timeout != 3*time.Second || config.Impersonate.UserName != "ann" || !slices.Equal(config.Impersonate.Groups, []string{"dev"}) {
		t.Errorf("%v, %+v", err, config)
	}
	if _, err := withOverrides(&rest.Config{}, &clientcmd.ConfigOverrides{Timeout: "soon"}); err == nil || !strings.Contains(err.Error(), "--request-timeout") {
		t.Errorf("got %v", err)
	}
}

func TestFindRefuses(t *testing.T) {
	current := t.TempDir()
	t.Setenv("HOME", current)
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
		"no such context":          {file, Choice{Overrides: named("b", "", "")}, []string{`no context "b"`, file, "get-contexts"}},
		"no such context of it":    {"", Choice{Kubeconfig: file, Overrides: named("b", "", "")}, []string{`no context "b"`, file}},
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

// A plane that only root may open is an error for a user who names nothing else.
func TestFindOfAPlaneOfRoot(t *testing.T) {
	refused := errors.New("the plane belongs to root")
	t.Setenv(clientcmd.RecommendedConfigPathEnvVar, "")
	restore(t, &clientcmd.RecommendedHomeFile, filepath.Join(t.TempDir(), "none"))
	if c, err := Find(Choice{Plane: func() (Plane, error) { return nil, refused }}); err == nil || errors.Is(err, ErrNone) || !strings.Contains(err.Error(), "--kubeconfig or --context names another") {
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
Ask a cluster administrator to run:
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
		{fmt.Errorf("list: %w", &meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "Host"}}), []string{"lacks a part of Slipway", "clusterctl init"}},
		{apierrors.NewUnauthorized("no"), []string{"does not accept your credential"}},
		{fmt.Errorf("list: %w", &url.Error{Op: "Get", URL: "https://a", Err: other}), []string{"does not answer"}},
		{fmt.Errorf("list: %w", &url.Error{Op: "Get", URL: "https://a", Err: errors.New("getting credentials: exec: executable nosuch not found")}), []string{"cannot get your credential for ", "exec: executable nosuch not found"}},
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
