package up

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"github.com/slipway-dev/slipway/internal/host"
	"github.com/slipway-dev/slipway/plane/internal/sandbox"
)

// agentState is the state directory of the agent on a local host's disk.
const agentState = "/var/lib/slipway-agent"

// readFile reads a file on the disk of a local host, of which the host may say anything.
func readFile(dir, name string) ([]byte, error) {
	f, err := sandbox.Open(dir, name)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, 1<<20))
	return data, errors.Join(err, f.Close())
}

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
// when it never was. See docs/design/move.md.
func homeOf(dir string) (server string, err error) {
	data, err := readFile(dir, path.Join(agentState, host.HomeFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	home, err := host.ParseHome(data)
	if err != nil {
		return "", err
	}
	target, err := home.Target()
	return target.Server, err
}
