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

// joinConfig is the configuration that Cluster API's bootstrap data gives kubeadm
// for a node that joins. It is on a file system that a reboot empties.
const joinConfig = "/run/kubeadm/kubeadm-join-config.yaml"

// IgnoredChecks reads which of kubeadm's preflight checks the node was joined
// without; nothing when the host was not joined by a kubeadm configuration.
func IgnoredChecks(root hostfs.Root) ([]string, error) {
	data, err := os.ReadFile(root.Path(joinConfig))
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
			return nil, fmt.Errorf("%s: %w", joinConfig, err)
		}
		var join struct {
			NodeRegistration struct {
				IgnorePreflightErrors []string `json:"ignorePreflightErrors"`
			} `json:"nodeRegistration"`
		}
		if err := yaml.Unmarshal(document, &join); err != nil {
			return nil, fmt.Errorf("%s: %w", joinConfig, err)
		}
		if ignored := join.NodeRegistration.IgnorePreflightErrors; len(ignored) > 0 {
			return ignored, nil
		}
	}
}
