package providercheck_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/providercheck"
)

// ipam are the components of an IPAM provider that has all it needs.
const ipam = `apiVersion: v1
kind: Namespace
metadata: {name: bar-system, labels: {cluster.x-k8s.io/provider: ipam-bar}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: barpools.ipam.bar.com, labels: {cluster.x-k8s.io/provider: ipam-bar}}
spec:
  group: ipam.bar.com
  names: {kind: BarPool, listKind: BarPoolList, plural: barpools, singular: barpool}
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      subresources: {status: {}}
      schema: {openAPIV3Schema: {type: object, properties: {status: {type: object, properties: {conditions: {type: array, items: {type: object}}}}}}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: bar, namespace: bar-system, labels: {cluster.x-k8s.io/provider: ipam-bar}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: bar, labels: {cluster.x-k8s.io/provider: ipam-bar}}
rules:
  - {apiGroups: [ipam.cluster.x-k8s.io], resources: [ipaddressclaims], verbs: [get, list, watch, patch]}
  - {apiGroups: [ipam.cluster.x-k8s.io], resources: [ipaddressclaims/status], verbs: [patch]}
  - {apiGroups: [ipam.cluster.x-k8s.io], resources: [ipaddresses], verbs: ["*"]}
  - {apiGroups: [cluster.x-k8s.io], resources: [clusters], verbs: [get, list, watch]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: bar, namespace: bar-system, labels: {cluster.x-k8s.io/provider: ipam-bar}}
spec:
  template:
    spec:
      serviceAccountName: bar
      containers: [{name: manager, image: "registry.bar.com/bar:v0.1.0", args: ["--namespace="]}]
`

// flat writes the good release and an IPAM provider's into one directory, as a code host
// has them, with a file of no provider.
func flat(t *testing.T, name string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	if err := os.CopyFS(dir, os.DirFS(good)); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"ipam-components.yaml": ipam, "foo-components.yaml": "kind: [", "operator.yaml": "kind: ["} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// releases reads a source, and holds that no rule finds anything.
func releases(t *testing.T, source providercheck.Source) []string {
	t.Helper()
	found, err := source.Releases(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range found {
		names = append(names, strings.TrimSpace(r.Label+" "+r.Version))
		for _, f := range providercheck.Check(r) {
			t.Errorf("%s: %+v", r.Label, f)
		}
	}
	return names
}

func TestSources(t *testing.T) {
	both, infrastructure := "infrastructure-foo v0.1.0,ipam-bar v0.1.0", "infrastructure-foo v0.1.0"
	for name, c := range map[string]struct {
		source providercheck.Source
		want   string
	}{
		"repository of clusterctl":   {providercheck.Source{Place: good}, infrastructure},
		"named by the version":       {providercheck.Source{Place: flat(t, "v0.1.0")}, both},
		"version given":              {providercheck.Source{Place: flat(t, "assets"), Version: "v0.1.0"}, both},
		"one of several":             {providercheck.Source{Place: flat(t, "v0.1.0"), Provider: "ipam-bar"}, "ipam-bar v0.1.0"},
		"components alone":           {providercheck.Source{Place: filepath.Join(good, components)}, "infrastructure-foo"},
		"template alone":             {providercheck.Source{Place: filepath.Join(good, template)}, ""},
		"topology without its class": {providercheck.Source{Place: filepath.Join(good, topology)}, ""},
		"class alone":                {providercheck.Source{Place: filepath.Join(good, class)}, ""},
		"components of any name":     {providercheck.Source{Place: copied(t, components, "out.yaml")}, "infrastructure-foo"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(releases(t, c.source), ","); got != c.want {
				t.Errorf("found %q, want %q", got, c.want)
			}
		})
	}
}

func copied(t *testing.T, name, as string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(good, name))
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), as)
	if err := os.WriteFile(to, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return to
}

// TestPartial holds that a file is judged by the rules that it can break alone.
func TestPartial(t *testing.T) {
	path := plant(t, violation{file: components, old: "scope: Namespaced", changed: "scope: Cluster"})
	found, err := providercheck.Source{Place: filepath.Join(path, components)}.Releases(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	findings := providercheck.Check(found[0])
	if len(findings) != 1 || findings[0].Rule != "crd-scope" {
		t.Errorf("found %+v", findings)
	}
	result := providercheck.NewResult(found[0], providercheck.Filter{})
	if !result.Partial || result.Rules >= len(providercheck.Rules) {
		t.Errorf("%+v", result)
	}
}

// server serves the good release in the layout of a web server and as GitHub does.
func server(t *testing.T, files string, seen func(*http.Request)) *httptest.Server {
	t.Helper()
	handler := http.NewServeMux()
	handler.Handle("/infrastructure-foo/v0.1.0/", http.StripPrefix("/infrastructure-foo/v0.1.0", http.FileServer(http.Dir(files))))
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if seen != nil {
			seen(r)
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	handler.HandleFunc("/assets/{name}", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept") != "application/octet-stream" {
			http.Error(w, "the asset as JSON was not asked for", http.StatusBadRequest)
			return
		}
		http.ServeFile(w, r, filepath.Join(files, r.PathValue("name")))
	})
	release := func(w http.ResponseWriter, _ *http.Request) {
		entries, err := os.ReadDir(files)
		if err != nil {
			t.Error(err)
		}
		assets := []map[string]string{{"name": "clusterctl-linux-amd64", "url": s.URL + "/absent"}}
		for _, e := range entries {
			assets = append(assets, map[string]string{"name": e.Name(), "url": s.URL + "/assets/" + e.Name()})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"tag_name": "v0.1.0", "assets": assets})
	}
	handler.HandleFunc("/repos/foo/provider/releases/tags/v0.1.0", release)
	handler.HandleFunc("/repos/foo/provider/releases/latest", release)
	handler.HandleFunc("/repos/foo/limited/releases/latest", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Ratelimit-Remaining", "0")
		w.WriteHeader(http.StatusForbidden)
	})
	handler.HandleFunc("/moved/v0.1.0/"+components, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://provider.example/"+components, http.StatusFound)
	})
	return s
}

func TestRemoteSources(t *testing.T) {
	s := server(t, flat(t, "v0.1.0"), nil)
	both := "infrastructure-foo v0.1.0,ipam-bar v0.1.0"
	for place, want := range map[string]string{
		"https://github.com/foo/provider/releases/latest":                               both,
		"https://github.com/foo/provider/releases/tag/v0.1.0":                           both,
		"https://github.com/foo/provider/releases/latest/download/ipam-components.yaml": "ipam-bar v0.1.0",
		"https://github.com/foo/provider/releases/latest/ipam-components.yaml":          "ipam-bar v0.1.0",
		"https://github.com/foo/provider/releases/download/v0.1.0/" + components:        "infrastructure-foo v0.1.0",
		s.URL + "/infrastructure-foo/v0.1.0/" + components:                              "infrastructure-foo v0.1.0",
	} {
		t.Run(strings.NewReplacer("https://", "", "/", "_").Replace(place), func(t *testing.T) {
			got := releases(t, providercheck.Source{Place: place, Client: s.Client(), GitHubAPI: s.URL})
			if strings.Join(got, ",") != want {
				t.Errorf("%s: found %v, want %s", place, got, want)
			}
		})
	}
}

// TestRefusedSources holds that what cannot be read is said with what to do.
func TestRefusedSources(t *testing.T) {
	s := server(t, good, nil)
	unlabelled := flat(t, "v0.1.0")
	if err := os.WriteFile(filepath.Join(unlabelled, "ipam-components.yaml"), []byte("kind: Namespace\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for place, want := range map[string]string{
		flat(t, "assets"): "--release",
		unlabelled:        "--provider ipam-foo",
		t.TempDir():       "no release of a provider",
		"http://" + strings.TrimPrefix(s.URL, "https://") + "/infrastructure-foo/v0.1.0/" + components: "https only",
		s.URL + "/infrastructure-foo/v0.1.0/":                                  "end the URL with the components file",
		s.URL + "/infrastructure-foo/v0.2.0/" + components:                     "not found",
		s.URL + "/moved/v0.1.0/" + components:                                  "https only",
		"https://github.com/foo/provider":                                      "releases/VERSION",
		"https://github.com/foo/provider/releases/v0.2.0":                      "no release v0.2.0",
		"https://github.com/foo/limited/releases/latest":                       "GITHUB_TOKEN",
		"https://github.com/foo/provider/releases/v0.1.0/ipam-components.yaml": "no release of a provider",
	} {
		_, err := providercheck.Source{Place: place, Client: s.Client(), GitHubAPI: s.URL}.Releases(t.Context())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", place, err, want)
		}
	}
	insecure := providercheck.Source{Place: "https://github.com/foo/provider/releases/latest", Client: s.Client(), GitHubAPI: "http://provider.example", GitHubToken: "secret"}
	if _, err := insecure.Releases(t.Context()); err == nil || !strings.Contains(err.Error(), "https only") {
		t.Errorf("an API without TLS: %v", err)
	}
	if _, err := (providercheck.Source{Place: unlabelled, Provider: "addon-x"}).Releases(t.Context()); !errors.Is(err, providercheck.ErrNoRelease) {
		t.Errorf("a provider that is not there: %v", err)
	}
}

// TestToken holds that the token is for the API of GitHub alone.
func TestToken(t *testing.T) {
	var told, kept int
	s := server(t, good, func(r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			told++
			return
		}
		kept++
	})
	for _, place := range []string{"https://github.com/foo/provider/releases/latest", s.URL + "/infrastructure-foo/v0.1.0/" + components} {
		told, kept = 0, 0
		api := s.URL
		if strings.HasPrefix(place, s.URL) {
			api = "https://api.github.com"
		}
		if _, err := (providercheck.Source{Place: place, Client: s.Client(), GitHubAPI: api, GitHubToken: "secret"}).Releases(t.Context()); err != nil {
			t.Fatal(err)
		}
		if forGitHub := api == s.URL; forGitHub && told == 0 || !forGitHub && told != 0 {
			t.Errorf("%s: the token was sent %d times, and %d times not", place, told, kept)
		}
	}
}
