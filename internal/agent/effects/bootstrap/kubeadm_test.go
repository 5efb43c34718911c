package bootstrap

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The words by which a refusal of the cluster is known are those of the kubeadm that local hosts run.
func TestKubeadmStillSaysSo(t *testing.T) {
	command := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes")
	command.Dir = filepath.Join("..", "..", "..", "..", "plane")
	module, err := command.Output()
	if err != nil {
		t.Fatalf("find k8s.io/kubernetes: %v", err)
	}
	words := []string{
		"a Node with name %q and status %q already exists in the cluster", "cannot get Node %q", "could not find a JWS signature in the cluster-info ConfigMap",
		"couldn't validate the identity of the API Server", "unable to fetch the kubeadm-config ConfigMap", "\"kubelet-start", "\"check-etcd\"", "error execution phase ",
	}
	missing := map[string]bool{}
	for _, w := range words {
		missing[w] = true
	}
	err = filepath.WalkDir(filepath.Join(strings.TrimSpace(string(module)), "cmd", "kubeadm", "app"), func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") {
			return err
		}
		source, err := os.ReadFile(name)
		for w := range missing {
			if bytes.Contains(source, []byte(w)) {
				delete(missing, w)
			}
		}
		return err
	})
	if err != nil || len(missing) > 0 {
		t.Fatalf("kubeadm does not say %v any more (%v)", missing, err)
	}
}
