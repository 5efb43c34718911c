package upgrade

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
)

// The configurations that Cluster API's bootstrap data gives kubeadm, for a node that
// joins and for the first one of a cluster. They are on a file system that a reboot empties.
const (
	joinConfig = "/run/kubeadm/kubeadm-join-config.yaml"
	initConfig = "/run/kubeadm/kubeadm.yaml"
)

// IgnoredChecks reads without which of kubeadm's preflight checks the node was made;
// nothing when that was not by a kubeadm configuration.
func IgnoredChecks(root hostfs.Root) ([]string, error) {
	ignored, err := ignoredBy(root.Path(joinConfig))
	if len(ignored) > 0 || err != nil {
		return ignored, err
	}
	return ignoredBy(root.Path(initConfig))
}

func ignoredBy(path string) ([]string, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		var config struct {
			NodeRegistration struct {
				IgnorePreflightErrors []string `json:"ignorePreflightErrors"`
			} `json:"nodeRegistration"`
		}
		if err := yaml.Unmarshal(document, &config); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if ignored := config.NodeRegistration.IgnorePreflightErrors; len(ignored) > 0 {
			return ignored, nil
		}
	}
}
