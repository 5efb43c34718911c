package localhost

import (
	"context"
	"errors"
	"time"

	"github.com/slipway-dev/slipway/plane/internal/sandbox"
)

// rebootPoll is how soon a host that went down to reboot is switched on again, and
// rebootRetry how soon one that did not come up.
const (
	rebootPoll  = 500 * time.Millisecond
	rebootRetry = 5 * time.Second
)

// ServeReboots switches on again every host that went down by `systemctl reboot`, or with
// the machine, until ctx ends. report is told what was done, with the error if it failed; a
// host that does not come up is tried again. What was asked for while nobody served is
// done at the start.
func (m *Manager) ServeReboots(ctx context.Context, report func(host string, err error)) {
	for {
		pause := rebootPoll
		names, err := m.names()
		if err != nil {
			report("", err)
			pause = rebootRetry
		}
		for _, name := range names {
			if !m.comesBack(name) {
				continue
			}
			err := m.reboot(ctx, name)
			if err != nil {
				pause = rebootRetry
			}
			if ctx.Err() == nil {
				report(name, err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// comesBack holds for a host that is off and to be switched on again.
func (m *Manager) comesBack(host string) bool {
	dir := m.Dir(host)
	return (sandbox.WantsReboot(dir) || sandbox.DownWithMachine(dir)) && m.isOff(host)
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
	if !m.comesBack(host) {
		return nil
	}
	return m.boot(ctx, host)
}
