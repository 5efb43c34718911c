package cli

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/join"
	"github.com/slipway-dev/slipway/internal/management"
	"github.com/slipway-dev/slipway/internal/status"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/test/clitest"
)

// env is a management cluster that is not a plane: an API server with the kinds of
// Cluster API and of Slipway.
var env *testenv.Env

func TestMain(m *testing.M) {
	scheme := func(s *runtime.Scheme) error {
		return errors.Join(clientgoscheme.AddToScheme(s), clusterv1.AddToScheme(s), infrav1.AddToScheme(s), lifecyclev1.AddToScheme(s))
	}
	os.Exit(testenv.Main(m, scheme, func(e *testenv.Env) error {
		env = e
		return nil
	}))
}

// as writes a kubeconfig of a user of the management cluster, who has no rights but
// those that all have.
func as(t *testing.T, user, namespace string) string {
	t.Helper()
	testenv.Skip(t)
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv(clientcmd.RecommendedConfigPathEnvVar, "")
	kc, err := clientcmd.Load(env.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	current := kc.Contexts[kc.CurrentContext]
	kc.AuthInfos[current.AuthInfo].Impersonate = user
	kc.Contexts = map[string]*clientcmdapi.Context{"mgmt": current}
	kc.CurrentContext, current.Namespace = "mgmt", namespace
	file := filepath.Join(t.TempDir(), "mgmt.conf")
	if err := clientcmd.WriteToFile(*kc, file); err != nil {
		t.Fatal(err)
	}
	return file
}

func create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := env.Client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
}

func host(namespace, name, rack string) *infrav1.Host {
	h := &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"rack": rack}}}
	h.Spec.HostID = testenv.HostID(namespace, name)
	return h
}

func TestStatusOfAnyManagementCluster(t *testing.T) {
	kubeconfig := as(t, "", "")
	a, b := env.Namespace(t), env.Namespace(t)
	testenv.NewCluster(t, env.Client, a)
	// Other tests have hosts in racks of theirs.
	rack := "rack-of-" + a
	create(t, host(a, "h1", rack), host(a, "h2", "r2"), host(b, "h3", rack))
	out, err := run(t, "status", "--kubeconfig", kubeconfig, "-n", a, "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var s status.Status
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		t.Fatal(err)
	}
	if !s.Plane.Ready || s.Plane.Context != "mgmt" || !strings.HasPrefix(s.Plane.Server, "https://127.0.0.1:") || len(s.Clusters) != 1 || len(s.Hosts) != 2 {
		t.Errorf("status %s", out)
	}
	asYAML, err := run(t, "status", "--kubeconfig", kubeconfig, "-n", a, "-o", "yaml")
	if back, yamlErr := yaml.YAMLToJSON([]byte(asYAML)); err != nil || yamlErr != nil || json.Unmarshal(back, &s) != nil || len(s.Hosts) != 2 {
		t.Errorf("as YAML: %v, %v\n%s", err, yamlErr, asYAML)
	}
	for _, tc := range []struct {
		args         []string
		shows, hides []string
	}{
		{[]string{"status", "-n", a}, []string{"MANAGEMENT CLUSTER  mgmt https://", a + "/c1", a + "/h1"}, []string{"PLANE  ready", b + "/"}},
		{[]string{"status", "-A", "-l", "rack=" + rack}, []string{a + "/h1", b + "/h3"}, []string{a + "/h2", a + "/c1"}},
		{[]string{"status", "-n", a, "-o", "name"}, []string{"cluster.cluster.x-k8s.io/c1\n", "host.infrastructure.slipway.dev/h1\n"}, []string{"h3"}},
		{[]string{"host", "list", "-n", a}, []string{"NAMESPACE", a + "  h1", a + "  h2"}, []string{"h3", "BECAUSE"}},
		{[]string{"host", "list", "-l", "rack in (" + rack + ")", "-o", "wide"}, []string{"  h1", "  h3", "BECAUSE"}, []string{"  h2"}},
		{[]string{"host", "list", "-n", a, "-o", "name"}, []string{"host.infrastructure.slipway.dev/h2\n"}, []string{"h3"}},
		{[]string{"host", "list", "-n", b, "-o", "json"}, []string{`"name":"h3"`, `"namespace":"` + b + `"`}, []string{"h1"}},
		{[]string{"lifecycle", "explain", "c1", "-n", a}, []string{"CLUSTER  " + a + "/c1"}, nil},
	} {
		out, err := run(t, append(tc.args, "--kubeconfig", kubeconfig)...)
		if err != nil {
			t.Errorf("%v: %v", tc.args, err)
		}
		for _, want := range tc.shows {
			if !strings.Contains(out, want) {
				t.Errorf("%v does not show %q:\n%s", tc.args, want, out)
			}
		}
		if strings.Contains(out, "\x1b") || slices.ContainsFunc(tc.hides, func(s string) bool { return strings.Contains(out, s) }) {
			t.Errorf("%v shows an escape or one of %q:\n%s", tc.args, tc.hides, out)
		}
	}
}

// KUBECONFIG and its context count where no plane is.
func TestKubeconfigOfTheEnvironment(t *testing.T) {
	namespace := ""
	if !testing.Short() {
		namespace = env.Namespace(t)
	}
	kubeconfig := as(t, "", namespace)
	testenv.NewCluster(t, env.Client, namespace)
	t.Setenv(clientcmd.RecommendedConfigPathEnvVar, kubeconfig)
	// Of a machine that has a plane in the default directory this must not be about it.
	if out, err := run(t, "lifecycle", "explain", "c1", "--context", "mgmt"); err != nil || !strings.Contains(out, namespace+"/c1") {
		t.Errorf("the namespace of the context: %v\n%s", err, out)
	}
	if _, err := run(t, "status", "--context", "other"); err == nil || !strings.Contains(err.Error(), `no context "other"`) {
		t.Errorf("got %v", err)
	}
}

// A user without rights learns which, and how to get them; with them it works.
func TestLimitedRights(t *testing.T) {
	kubeconfig := as(t, "ann", "")
	ns := env.Namespace(t)
	create(t, host(ns, "h1", "r1"))
	list := func(args ...string) (string, error) {
		return run(t, append([]string{"host", "list", "--kubeconfig", kubeconfig}, args...)...)
	}
	_, err := list()
	var missing *management.MissingRightError
	if !errors.As(err, &missing) || !apierrors.IsForbidden(err) || missing.Verb != "list" || missing.User != "ann" || missing.Resource.String() != "hosts.infrastructure.slipway.dev" {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{
		`context "mgmt" of ` + kubeconfig, `user "ann" may not list hosts.infrastructure.slipway.dev in all namespaces`, "name it with -n",
		"kubectl create clusterrole slipway-list --verb=list --resource=hosts.infrastructure.slipway.dev\n", "--user=ann",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v\ndoes not say %q", err, want)
		}
	}
	if _, err = list("-n", ns); err == nil || !strings.Contains(err.Error(), "in namespace "+ns) || !strings.Contains(err.Error(), "kubectl create role slipway-list -n "+ns+" ") {
		t.Errorf("got %v", err)
	}
	// Everything that is missing is told at once.
	_, err = run(t, "status", "--kubeconfig", kubeconfig, "-n", ns)
	if err == nil || strings.Count(err.Error(), "may not list") != 8 || strings.Count(err.Error(), "kubectl create role ") != 1 {
		t.Errorf("got %v", err)
	}
	env.GrantIn(t, "ann", ns, rbacv1.PolicyRule{Verbs: []string{"list"}, APIGroups: []string{infrav1.GroupVersion.Group}, Resources: []string{"hosts"}})
	if out, err := list("-n", ns); err != nil || !strings.Contains(out, "h1") {
		t.Errorf("with the right: %v\n%s", err, out)
	}
	if _, err := run(t, "approve", "run", "--kubeconfig", kubeconfig, "-n", ns); err == nil || !strings.Contains(err.Error(), `user "ann" may not get lifecycleruns`) {
		t.Errorf("got %v", err)
	}
}

// A token takes rights that few have, and a CA and an address that hosts can use.
func TestTokenOfAnyManagementCluster(t *testing.T) {
	kubeconfig := as(t, "", "")
	ns := env.Namespace(t)
	token := func(args ...string) (string, error) {
		return run(t, append([]string{"host", "token", "-n", ns, "--kubeconfig", kubeconfig}, args...)...)
	}
	if _, err := token(); err == nil || !strings.Contains(err.Error(), "loopback of this machine") || !strings.Contains(err.Error(), "--server") {
		t.Errorf("got %v", err)
	}
	out, err := token("--server", "https://mgmt.example:6443")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(out))
	if err != nil || config.Host != "https://mgmt.example:6443" || string(config.CAData) != string(env.Config.CAData) || config.BearerToken == "" {
		t.Errorf("%v\n%s", err, out)
	}
	id, _, _ := strings.Cut(config.BearerToken, ".")
	secret := &corev1.Secret{}
	if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-" + id}, secret); err != nil {
		t.Error(err)
	}
	if uses := secret.Annotations[infrav1.TokenUsesAnnotation]; uses != "1" {
		t.Errorf("enrolls %q machines, want 1", uses)
	}
	for args, want := range map[string]string{"a-1 a-2": "2", "--uses 0": "0", "a-1 --uses 7": "7"} {
		out, err := token(append(strings.Fields(args), "--server", "https://mgmt.example:6443")...)
		if err != nil {
			t.Fatal(err)
		}
		config, err := clientcmd.RESTConfigFromKubeConfig([]byte(out))
		if err != nil {
			t.Fatal(err)
		}
		id, _, _ := strings.Cut(config.BearerToken, ".")
		if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-" + id}, secret); err != nil || secret.Annotations[infrav1.TokenUsesAnnotation] != want {
			t.Errorf("%s: %v, %v", args, err, secret.Annotations)
		}
	}
	lines, err := token("a-1", "a-2", "--server", "https://mgmt.example:6443", "--join-command")
	if err != nil || strings.Count(lines, "\n") != 2 {
		t.Fatalf("%v\n%s", err, lines)
	}
	// What the agent makes of it.
	var named []string
	for line := range strings.Lines(lines) {
		o, err := join.Parse(strings.Fields(strings.TrimPrefix(line, "slipway-agent join ")), io.Discard)
		if err != nil || o.Server != "https://mgmt.example:6443" || o.Namespace != ns || string(o.CA) != string(env.Config.CAData) {
			t.Errorf("%v\n%+v", err, o)
		}
		named = append(named, o.HostName)
	}
	if !slices.Equal(named, []string{"a-1", "a-2"}) {
		t.Errorf("lines for %v", named)
	}
	if line, err := token("--server", "https://mgmt.example:6443", "--join-command"); err != nil || strings.Contains(line, "--host-name") || strings.Count(line, "\n") != 1 {
		t.Errorf("for any host: %v\n%s", err, line)
	}
	for _, format := range []string{"shell", "cloud-init", "ansible"} {
		if out, err := token("a-1", "--server", "https://mgmt.example:6443", "--format", format); err != nil || !strings.Contains(out, "https://mgmt.example:6443") || !strings.Contains(out, "slipway-agent.service") {
			t.Errorf("%s: %v\n%s", format, err, out)
		}
	}
	for args, want := range map[string]string{"--format xml": "is no format", "a b --format cloud-init": "is for one machine", "--format shell --join-command": "--format and --join-command exclude each other"} {
		if out, err := token(append(strings.Fields(args), "--server", "https://mgmt.example:6443")...); err == nil || !strings.Contains(err.Error(), want) || out != "" {
			t.Errorf("%s: %v\n%s", args, err, out)
		}
	}
	kubeconfig = as(t, "bob", "")
	if _, err := token("--server", "https://mgmt.example:6443"); err == nil || !strings.Contains(err.Error(), `user "bob" may not patch secrets bootstrap-token-`) || !strings.Contains(err.Error(), "role slipway-patch-bootstrap-token-") {
		t.Errorf("got %v", err)
	}
}

func TestKubeconfigOfAWorkloadCluster(t *testing.T) {
	kubeconfig := as(t, "", "")
	ns := env.Namespace(t)
	secret := func(name, user string) {
		data := "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n" +
			"clusters: [{name: a, cluster: {server: 'https://a:1'}}]\nusers: [{name: a, user: " + user + "}]\n"
		create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name + "-kubeconfig"}, Data: map[string][]byte{"value": []byte(data)}})
	}
	secret("good", "{token: b}")
	secret("evil", "{exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/true, interactiveMode: Never}}")
	get := func(args ...string) (string, error) {
		return run(t, append([]string{"kubeconfig", "-n", ns, "--kubeconfig", kubeconfig}, args...)...)
	}
	whole, err := get("good", "-o", "yaml")
	if err != nil || !strings.Contains(whole, "https://a:1") {
		t.Errorf("%v\n%s", err, whole)
	}
	for range 2 {
		path, err := get("good")
		if err != nil {
			t.Fatal(err)
		}
		path = strings.TrimSpace(path)
		written, err := os.ReadFile(path)
		if err != nil || string(written) != whole || !strings.HasPrefix(path, os.Getenv("HOME")) {
			t.Errorf("%s: %v\n%s", path, err, written)
		}
		if info, err := os.Stat(path); err == nil && info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
	}
	if raw, err := get("good", "--raw"); err != nil || raw != whole {
		t.Errorf("--raw: %v\n%s", err, raw)
	}
	mine := filepath.Join(t.TempDir(), "config")
	if err := clientcmd.WriteToFile(clientcmdapi.Config{CurrentContext: "x", Contexts: map[string]*clientcmdapi.Context{"x": {Cluster: "x", AuthInfo: "x"}}}, mine); err != nil {
		t.Fatal(err)
	}
	t.Setenv(clientcmd.RecommendedConfigPathEnvVar, mine)
	for range 2 {
		out, err := get("good", "--merge")
		merged, readErr := clientcmd.LoadFromFile(mine)
		if err != nil || readErr != nil || out != `Context "a" is in `+mine+": kubectl --context a get nodes\n" || merged.CurrentContext != "x" || merged.Clusters["a"].Server != "https://a:1" || merged.AuthInfos["a"].Token != "b" || len(merged.Contexts) != 2 {
			t.Fatalf("--merge: %v, %v\n%s%+v", err, readErr, out, merged)
		}
	}
	for name, broken := range map[string]func(*clientcmdapi.Config){
		"another cluster a": func(c *clientcmdapi.Config) { c.Clusters["a"].Server = "https://other" },
		"another user a":    func(c *clientcmdapi.Config) { c.Contexts["x"].AuthInfo = "a" },
	} {
		merged, err := clientcmd.LoadFromFile(mine)
		if err != nil {
			t.Fatal(err)
		}
		broken(merged)
		other := filepath.Join(t.TempDir(), "other")
		if err := clientcmd.WriteToFile(*merged, other); err != nil {
			t.Fatal(err)
		}
		before, _ := os.ReadFile(other)
		t.Setenv(clientcmd.RecommendedConfigPathEnvVar, other)
		if _, err := get("good", "--merge"); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		if after, _ := os.ReadFile(other); string(after) != string(before) {
			t.Errorf("%s: the file was changed", name)
		}
	}
	for name, want := range map[string]string{"evil": "has exec, which is not allowed", "none": "no kubeconfig yet"} {
		if out, err := get(name); err == nil || !strings.Contains(err.Error(), want) || out != "" {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	if _, err := get(); err == nil || !strings.Contains(err.Error(), "slipway kubeconfig CLUSTER") {
		t.Errorf("got %v", err)
	}
}

// What is no management cluster, or does not answer, is called so.
func TestOtherClusters(t *testing.T) {
	kubeconfig := as(t, "", "")
	kc, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	server := ""
	for _, cluster := range kc.Clusters {
		server, cluster.Server = cluster.Server, "https://127.0.0.1:1"
	}
	if err := clientcmd.WriteToFile(*kc, kubeconfig); err != nil {
		t.Fatal(err)
	}
	if _, err := run(t, "status", "--kubeconfig", kubeconfig); err == nil || !strings.Contains(err.Error(), `context "mgmt" of `+kubeconfig+" does not answer") {
		t.Errorf("got %v", err)
	}
	for _, user := range kc.AuthInfos {
		*user = clientcmdapi.AuthInfo{Token: "unknown"}
	}
	for _, cluster := range kc.Clusters {
		cluster.Server = server
	}
	if err := clientcmd.WriteToFile(*kc, kubeconfig); err != nil {
		t.Fatal(err)
	}
	if _, err := run(t, "host", "list", "--kubeconfig", kubeconfig); err == nil || !strings.Contains(err.Error(), "does not accept your credential") {
		t.Errorf("got %v", err)
	}
}

// A cluster without hosts is no management cluster, whatever the command reads.
func TestWorkloadClusterIsNoManagementCluster(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer, known := map[string]string{
			"/api":    `{"kind":"APIVersions","versions":["v1"]}`,
			"/apis":   `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`,
			"/api/v1": `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"secrets","namespaced":true,"kind":"Secret"}]}`,
		}[r.URL.Path]
		if !known {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = io.WriteString(w, answer)
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "workload")
	config := clientcmdapi.Config{
		CurrentContext: "w", Contexts: map[string]*clientcmdapi.Context{"w": {Cluster: "w", AuthInfo: "w"}},
		Clusters: map[string]*clientcmdapi.Cluster{"w": {Server: server.URL}}, AuthInfos: map[string]*clientcmdapi.AuthInfo{"w": {}},
	}
	if err := clientcmd.WriteToFile(config, file); err != nil {
		t.Fatal(err)
	}
	t.Setenv(clientcmd.RecommendedConfigPathEnvVar, file)
	for _, line := range []string{
		"status", "doctor", "host list", "cluster get", "cluster get c", "cluster delete c --yes", "cluster scale c --pool a=1", "kubeconfig c", "host token --server https://a:1",
		"host reset h", "host remove h --no-ssh", "approve c", "lifecycle explain c", "cluster create c --endpoint 192.0.2.1",
	} {
		_, err := run(t, strings.Fields(line)...)
		want := `context "w" of ` + file + " (" + server.URL + ") is not a Slipway management cluster"
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v", line, err)
		}
	}
}

// As a plugin it is called by another name, whatever it is called when it is linked.
func TestKubectlPlugin(t *testing.T) {
	for _, tc := range []struct{ program, called, usage, example string }{
		{PluginName, "/usr/bin/" + PluginName, "  kubectl slipway approve CLUSTER|RUN [flags]", "  kubectl slipway approve prod "},
		{PluginName, "./slipway-cli", "  kubectl slipway approve CLUSTER|RUN [flags]", "  kubectl slipway approve prod "},
		{"slipway", "/usr/bin/" + PluginName, "  kubectl slipway approve CLUSTER|RUN [flags]", "  kubectl slipway approve prod "},
		{"slipway", "slipway", "\n  slipway approve CLUSTER|RUN [flags]", "\n  slipway approve prod "},
	} {
		t.Run(tc.program+" as "+tc.called, func(t *testing.T) {
			before := os.Args[0]
			t.Cleanup(func() { os.Args[0] = before })
			os.Args[0] = tc.called
			out, err := clitest.Run(t.Context(), Root(Program{Name: tc.program}), "approve", "--help")
			if err != nil || !strings.Contains(out, tc.usage) || !strings.Contains(out, tc.example) {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
