package localhost

import (
	"context"
	"errors"
	"time"

	"github.com/slipway-dev/slipway/plane/internal/sandbox"
)

// rebootPoll is how soon a host that went down to reboot is switched on again.
const rebootPoll = 500 * time.Millisecond

// ServeReboots switches on again every host that went down by `systemctl reboot`,
// until ctx ends. report is told what was done, with the error if it failed; a host
// that does not come up is tried again. What was asked for while nobody served is
// done at the start.
func (m *Manager) ServeReboots(ctx context.Context, report func(host string, err error)) {
	ticker := time.NewTicker(rebootPoll)
	defer ticker.Stop()
	for {
		names, err := m.names()
		if err != nil {
			report("", err)
		}
		for _, name := range names {
			if !sandbox.WantsReboot(m.Dir(name)) || !m.isOff(name) {
				continue
			}
			if err := m.reboot(ctx, name); ctx.Err() == nil {
				report(name, err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (m *Manager) isOff(host string) bool {
	p, _, err := m.process(host)
	if err == nil {
		p.Close()
	}
	return errors.Is(err, ErrNotRunning)
}

// reboot looks again once nobody else can switch the host on or off.
func (m *Manager) reboot(ctx context.Context, host string) error {
	unlock, err := m.lockHost(ctx, host)
	if err != nil {
		return err
	}
	defer unlock()
	if !sandbox.WantsReboot(m.Dir(host)) || !m.isOff(host) {
		return nil
	}
	return m.boot(ctx, host)
}
