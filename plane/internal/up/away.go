package up

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
)

// homeFile is where the agent of a local host writes down to which management cluster
// the host was handed over; see docs/design/move.md.
const homeFile = "var/lib/slipway-agent/handed-over.json"

// findAway looks for local hosts that `clusterctl move` took to another management
// cluster. Their cluster is there, too: it must not be made here a second time, nor the
// hosts be waited for. They still get their power from here.
func (s *Session) findAway(ctx context.Context) error {
	hosts, err := s.Hosts.List(ctx)
	if err != nil {
		return err
	}
	for _, h := range hosts {
		server, err := homeOf(s.Hosts.Dir(h.Name))
		if err != nil {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
		if server == "" || server == s.Instance.Server() {
			continue
		}
		s.away = true
		s.Progress.Note(fmt.Sprintf("Note: %s belongs to the management cluster at %s now: bringing up the plane and the hosts, no cluster.", h.Name, server))
	}
	return nil
}

// homeOf is the server that the host whose disk is in dir was handed over to last; empty
// when it never was.
func homeOf(dir string) (server string, err error) {
	data, err := os.ReadFile(filepath.Join(dir, homeFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	var home struct {
		Kubeconfig []byte `json:"kubeconfig"`
	}
	if err := json.Unmarshal(data, &home); err != nil {
		return "", fmt.Errorf("%s: %w", homeFile, err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(home.Kubeconfig)
	if err != nil {
		return "", fmt.Errorf("%s: %w", homeFile, err)
	}
	return config.Host, nil
}
