package unit

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// tick is how soon a condition that came true is seen, and how exact delays are.
const tick = 100 * time.Millisecond

// Config of a Supervisor.
type Config struct {
	// Units in the order in which they are started.
	Units []Unit
	// Env is the environment of every unit.
	Env []string
	// LogDir gets <unit>.log.
	LogDir string
	// StateDir remembers which units are disabled; it must survive a restart.
	StateDir string
	// Reboot, if set, is called by `systemctl reboot` once all is ready for it to
	// stop the supervisor.
	Reboot func() error
	// Processes is NewProcesses() but for tests.
	Processes Processes
}

// Supervisor keeps units running. One goroutine (Run) owns their state; all else
// goes through its channel.
type Supervisor struct {
	cfg     Config
	records []*record
	logs    map[string]*os.File
	calls   chan func()
	waiters []waiter
	done    chan struct{}
}

// waiter is a request that waits for units to settle.
type waiter struct {
	settled func() bool
	reply   chan<- struct{}
}

// NewSupervisor makes a supervisor; Run starts the enabled units.
func NewSupervisor(cfg Config) (*Supervisor, error) {
	s := &Supervisor{cfg: cfg, logs: map[string]*os.File{}, calls: make(chan func()), done: make(chan struct{})}
	for _, u := range cfg.Units {
		if err := u.Validate(); err != nil {
			return nil, err
		}
		out, err := openLog(cfg.LogDir, u.Name)
		if err != nil {
			return nil, err
		}
		s.logs[u.Name] = out
		_, err = os.Stat(s.disabledMark(u.Name))
		enabled := err != nil
		s.records = append(s.records, &record{unit: u, enabled: enabled, wanted: enabled, since: time.Now()})
	}
	return s, nil
}

// Run supervises until ctx ends; then it stops all units in order, each within its
// StopTimeout, and returns.
func (s *Supervisor) Run(ctx context.Context) {
	defer close(s.done)
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	stop := ctx.Done()
	for {
		s.step(time.Now())
		if stop == nil && !slices.ContainsFunc(s.records, (*record).running) {
			return
		}
		select {
		case e := <-s.cfg.Processes.Exits():
			s.onExit(e)
		case call := <-s.calls:
			call()
		case <-ticker.C:
		case <-stop:
			stop = nil
			for _, r := range s.records {
				r.wanted = false
			}
		}
	}
}

// step lets every unit act until none wants to: a unit that became ready may be
// what the next one waited for.
func (s *Supervisor) step(now time.Time) {
	for again := true; again; {
		again = false
		for _, r := range s.records {
			if a := r.step(s.factsOf(r, now)); a != actNone {
				s.do(r, a, now)
				again = true
			}
		}
	}
	s.waiters = slices.DeleteFunc(s.waiters, func(w waiter) bool {
		if !w.settled() {
			return false
		}
		close(w.reply)
		return true
	})
}

func (s *Supervisor) factsOf(r *record, now time.Time) facts {
	f := facts{now: now, condition: true, predecessors: true}
	if p := r.unit.ConditionPath; p != "" {
		_, err := os.Stat(p)
		f.condition = err == nil
	}
	for _, other := range s.records {
		if slices.Contains(r.unit.After, other.unit.Name) && other.wanted && other.phase != active {
			f.predecessors = false
		}
		if slices.Contains(other.unit.After, r.unit.Name) && !other.wanted && other.running() {
			f.successors = true
		}
	}
	return f
}

func (s *Supervisor) do(r *record, a action, now time.Time) {
	switch a {
	case actStart:
		if err := s.start(r, now); err != nil {
			fmt.Fprintf(s.logs[r.unit.Name], "slipway: cannot start %s: %v\n", r.unit.Name, err)
			r.onExited(err.Error(), now)
		}
	case actTerm:
		s.cfg.Processes.Signal(r.pid, syscall.SIGTERM, false)
	case actKill:
		s.cfg.Processes.Signal(r.pid, syscall.SIGKILL, r.unit.KillGroup)
	case actNone:
	}
}

func (s *Supervisor) start(r *record, now time.Time) error {
	argv, env, err := r.unit.command()
	if err != nil {
		return err
	}
	pid, err := s.cfg.Processes.Start(argv, append(slices.Clone(s.cfg.Env), env...), s.logs[r.unit.Name])
	if err != nil {
		return err
	}
	r.onStarted(pid, now)
	if r.unit.ReadySocket != "" {
		go s.probe(r, r.started, r.unit.ReadySocket)
	}
	return nil
}

// probe connects to the socket until it accepts or the unit was started anew.
func (s *Supervisor) probe(r *record, start int, socket string) {
	for {
		c, err := net.DialTimeout("unix", socket, tick)
		if err == nil {
			_ = c.Close()
		}
		current := false
		if !s.call(func() {
			if err == nil {
				r.onReady(start, time.Now())
			}
			current = r.phase == starting && r.started == start
		}) || !current {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (s *Supervisor) onExit(e Exit) {
	for _, r := range s.records {
		if r.pid != e.PID {
			continue
		}
		if r.unit.KillGroup {
			s.cfg.Processes.Signal(e.PID, syscall.SIGKILL, true)
		}
		r.onExited(e.String(), time.Now())
		return
	}
}

// call runs fn on the goroutine of Run; false if that has ended.
func (s *Supervisor) call(fn func()) bool {
	ran := make(chan struct{})
	select {
	case s.calls <- func() { fn(); close(ran) }:
		<-ran
		return true
	case <-s.done:
		return false
	}
}

func (s *Supervisor) disabledMark(name string) string {
	return filepath.Join(s.cfg.StateDir, "disabled", name)
}
