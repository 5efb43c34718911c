package judge

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// assetsVariable names the folder with the programs of the control plane.
const assetsVariable = "KUBEBUILDER_ASSETS"

// CertManager is the module whose CRDs stand for a cert-manager: its API is what
// clusterctl asks for, and what manifests have objects of.
const CertManager = "github.com/cert-manager/cert-manager@v1.21.2"

// Main runs the tests of a package; bin is the folder of the programs, seen from there.
func Main(m *testing.M, bin string) {
	flag.Parse()
	if err := FindAssets(bin); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// FindAssets takes the programs of the control plane from the folder bin of this
// repository, unless KUBEBUILDER_ASSETS names another one.
func FindAssets(bin string) error {
	if os.Getenv(assetsVariable) != "" {
		return nil
	}
	dir, err := filepath.Abs(filepath.Join(bin, "envtest"))
	if err != nil {
		return err
	}
	return os.Setenv(assetsVariable, dir)
}

// Kubectl is the path of kubectl.
func Kubectl() string { return asset("kubectl") }

// RunCommand runs a command of kubectl, as a message or a document has it, as an administrator.
func RunCommand(t testing.TB, config *rest.Config, command string) {
	t.Helper()
	data, err := Kubeconfig(config)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	words := strings.Fields(command)
	if err := os.WriteFile(kubeconfig, data, 0o600); err != nil || words[0] != "kubectl" {
		t.Fatal(command, err)
	}
	kubectl := exec.CommandContext(t.Context(), Kubectl(), words[1:]...)
	kubectl.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	if out, err := kubectl.CombinedOutput(); err != nil {
		t.Fatal(errors.Join(fmt.Errorf("%s: %s", command, out), err))
	}
}

// asset is a program of the control plane.
func asset(name string) string { return filepath.Join(os.Getenv(assetsVariable), name) }

// Download returns the folder of a module@version in the module cache.
func Download(ctx context.Context, module string) (string, error) {
	command := exec.CommandContext(ctx, "go", "mod", "download", "-json", module)
	command.Env = append(os.Environ(), "GOWORK=off")
	data, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("download %s: %w\n%s", module, err, stderr(err))
	}
	var found struct{ Dir string }
	if err := json.Unmarshal(data, &found); err != nil {
		return "", fmt.Errorf("download %s: %w", module, err)
	}
	return found.Dir, nil
}

// Kustomize returns the manifests of the kustomization in a folder, by kubectl.
func Kustomize(ctx context.Context, folder string) ([]byte, error) {
	data, err := exec.CommandContext(ctx, Kubectl(), "kustomize", folder).Output()
	if err != nil {
		return nil, fmt.Errorf("render the manifests in %s: %w\n%s", folder, err, stderr(err))
	}
	return data, nil
}

// stderr is what a program that failed has printed.
func stderr(err error) []byte {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.Stderr
	}
	return nil
}
