package testenv

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/internal/testenv/shared"
)

// StartServerWith is StartServer with an etcd that has kinds from the beginning, and what an API server
// itself creates, such as its roles. To create kinds takes an API server more processor time
// than all else that it does before the first test, 4 of 8 seconds for those of testenv, and
// to create the rest a quarter of what is left. They are created once; each server begins with
// a copy of the etcd that has them. stop ends the server.
func StartServerWith(server *envtest.Environment, kinds []*apiextensionsv1.CustomResourceDefinition) (config *rest.Config, stop func() error, err error) {
	seed, err := seeded(kinds)
	if err != nil {
		return nil, nil, fmt.Errorf("an etcd with the kinds of the tests: %w", err)
	}
	data, err := os.MkdirTemp("", "etcd-of-test-")
	if err != nil {
		return nil, nil, err
	}
	remove := func() error { return os.RemoveAll(data) }
	if err := copyTree(seed, data); err != nil {
		return nil, nil, errors.Join(err, remove())
	}
	server.ControlPlane.Etcd = &envtest.Etcd{DataDir: data}
	if config, err = StartServer(server); err != nil {
		return nil, nil, errors.Join(err, remove())
	}
	stop = func() error { return errors.Join(server.Stop(), remove()) }
	if err := envtest.WaitForCRDs(config, kinds, envtest.CRDInstallOptions{MaxTime: poll.Limit(), PollInterval: 50 * time.Millisecond}); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("wait until the API server serves the kinds: %w", err), stop())
	}
	return config, stop, nil
}

// seeded returns the data of an etcd that has the kinds, beside the folder of programs, and
// makes it unless another process has. It gets its name once it is whole.
func seeded(kinds []*apiextensionsv1.CustomResourceDefinition) (string, error) {
	name, err := digestOf(kinds)
	if err != nil {
		return "", err
	}
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	dir := filepath.Join(filepath.Dir(assets), "envtest-etcd", name)
	return dir, shared.Once(dir, func(dir string) error { return plantKinds(dir, kinds) })
}

func plantKinds(dir string, kinds []*apiextensionsv1.CustomResourceDefinition) error {
	grown, err := os.MkdirTemp(filepath.Dir(dir), "part-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(grown) }()
	server := &envtest.Environment{CRDs: kinds}
	server.ControlPlane.Etcd = &envtest.Etcd{DataDir: grown}
	if _, err := StartServer(server); err != nil {
		return err
	}
	if err := server.Stop(); err != nil {
		return err
	}
	return errors.Join(os.Mkdir(dir, 0o700), copyTree(grown, dir))
}

// digestOf tells kinds, and the programs that stored them, apart from others.
func digestOf(kinds []*apiextensionsv1.CustomResourceDefinition) (string, error) {
	sum := sha256.New()
	for _, kind := range kinds {
		if err := json.NewEncoder(sum).Encode(kind); err != nil {
			return "", err
		}
	}
	for _, program := range []string{"etcd", "kube-apiserver"} {
		info, err := os.Stat(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), program))
		if err != nil {
			return "", err
		}
		fmt.Fprintln(sum, info.Size(), info.ModTime().UnixNano())
	}
	return hex.EncodeToString(sum.Sum(nil)[:8]), nil
}

// copyTree leaves out what etcd reserves and has not written: 60 MiB of its log.
func copyTree(from, to string) error {
	if out, err := exec.Command("cp", "--recursive", "--sparse=always", from+"/.", to).CombinedOutput(); err != nil {
		return fmt.Errorf("copy %s: %w: %s", from, err, out)
	}
	return nil
}
