package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/upgradecheck"
)

// What programs refuse of a cluster, or what cannot be tried, decides the exit code; a version to which no cluster
// goes, or of which there is no program, is an error.
func TestCheckUpgradeOfACluster(t *testing.T) {
	kubeconfig, namespace := as(t, "", ""), env.Namespace(t)
	testenv.NewCluster(t, env.Client, namespace)
	plane := testenv.NewControlPlane(t, env.Client, namespace, 1, nil)
	programs := t.TempDir()
	script := "#!/bin/sh\ncase \"$1 $*\" in\n*--gone*) echo 'Error: unknown flag: --gone' ;;\nkubelet*) echo 'configure watchdog timeout too small' ;;\n" +
		"kubeadm*) exit 0 ;;\n*) echo 'Error: --secure-port -1 must be between 0 and 65535, inclusive' ;;\nesac\nexit 1\n"
	for name, content := range map[string]string{"hyperkube": script, "etcd": "#!/bin/sh\necho heartbeat-interval must be more\nexit 1\n"} {
		if err := os.WriteFile(filepath.Join(programs, name), []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	check := func(args ...string) (string, error) {
		return run(t, append([]string{"check", "upgrade", testenv.ClusterName, "-n", namespace, "--kubeconfig", kubeconfig}, args...)...)
	}
	out, err := check("--to", "v1.37.0", "--programs", programs)
	if code, _ := ExitCode(err); code != 0 || !strings.Contains(out, "KubeadmControlPlane plane  kube-apiserver           Accepted  -") ||
		!strings.Contains(out, "ConfigMap kubelet-config   kubelet                  NotTried  kubeadm's defaults are tried instead") {
		t.Errorf("exit code %d, %v\n%s", code, err, out)
	}
	if _, err := check("--to", "v1.37.0", "--programs", programs, "--strict"); err == nil {
		t.Error("--strict takes what was not tried")
	}
	if err := unstructured.SetNestedSlice(plane.Object, []any{map[string]any{"name": "gone", "value": "1"}},
		"spec", "kubeadmConfigSpec", "clusterConfiguration", "scheduler", "extraArgs"); err != nil {
		t.Fatal(err)
	}
	if err := env.Client.Update(t.Context(), plane); err != nil {
		t.Fatal(err)
	}
	out, err = check("--to", "v1.37.0", "--programs", programs, "-o", "json")
	var said clusterUpgrade
	if code, _ := ExitCode(err); code != exitRefused || json.Unmarshal([]byte(out), &said) != nil || said.Refused != 1 || said.NotTried != 1 {
		t.Fatalf("exit code %d, %v\n%s", code, err, out)
	}
	for _, c := range said.Checks {
		if c.Program == "kube-scheduler" && (c.Result != upgradecheck.Refused || c.Message != "unknown flag: --gone") {
			t.Errorf("got %+v", c)
		}
	}
	for to, want := range map[string]string{
		"v1.35.0":       "one minor version at a time",
		"v1.38.0":       "one minor version at a time",
		"capi/v1.15.0":  "a cluster is upgraded to a version of Kubernetes",
		"v1.36.4 --gon": "a cluster is upgraded to a version of Kubernetes",
	} {
		if _, err := check("--to", to, "--programs", programs); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--to %s: %v, want %q", to, err, want)
		}
	}

	// Who writes the Secrets of a namespace runs nothing on the machine of an operator.
	ran := filepath.Join(programs, "ran")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: testenv.ClusterName + "-kubeconfig"}, Data: map[string][]byte{"value": []byte(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: touch, args: ["` + ran + `"], interactiveMode: Never}}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`)}}
	if err := env.Client.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	out, err = check("--to", "v1.37.0", "--programs", programs)
	if _, stat := os.Stat(ran); stat == nil || !strings.Contains(out, "kubelet-config") || !strings.Contains(out, "exec") {
		t.Errorf("a program of the kubeconfig ran, or nobody tells of it: %v\n%s", err, out)
	}
	if _, err := check("--to", "v1.37.0"); err == nil || !strings.Contains(err.Error(), "no programs of v1.37.0 are in ") {
		t.Errorf("without programs: %v", err)
	}
}
