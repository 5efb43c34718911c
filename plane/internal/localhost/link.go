package localhost

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/slipway-dev/slipway/plane/internal/network"
)

// cutMark in a host's directory means that its cable is unplugged, and stays so
// while the host is off.
const cutMark = "link.cut"

func (m *Manager) isCut(host string) bool {
	_, err := os.Stat(filepath.Join(m.Dir(host), cutMark))
	return err == nil
}

// Cut unplugs the network of a host until Heal, also over power cycles.
func (m *Manager) Cut(ctx context.Context, host string) error {
	return m.setLink(ctx, host, true)
}

// Heal plugs the network of a host in again.
func (m *Manager) Heal(ctx context.Context, host string) error {
	return m.setLink(ctx, host, false)
}

func (m *Manager) setLink(ctx context.Context, host string, cut bool) error {
	unlock, err := m.lockHost(ctx, host)
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := m.load(host); err != nil {
		return err
	}
	mark := filepath.Join(m.Dir(host), cutMark)
	if cut {
		err = os.WriteFile(mark, nil, 0o600)
	} else if err = os.Remove(mark); errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return err
	}
	p, _, err := m.process(host)
	if errors.Is(err, ErrNotRunning) {
		return nil // takes effect when it boots
	}
	if err != nil {
		return err
	}
	p.Close()
	if cut {
		return network.CutLink(m.Name, host)
	}
	return network.HealLink(m.Name, host)
}
