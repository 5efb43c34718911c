package unit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Reply is what a systemctl invocation prints and its exit code.
type Reply struct {
	Code   int    `json:"code"`
	Stdout string `json:"stdout,omitempty"`
	Stderr string `json:"stderr,omitempty"`
}

// Exit codes of systemctl, as in systemd 252.
const (
	codeOK            = 0
	codeFailure       = 1
	codeNotActive     = 3
	codeStatusUnknown = 4
	codeNotLoaded     = 5
)

func (r *Reply) failf(code int, format string, args ...any) {
	if r.Code == codeOK {
		r.Code = code
	}
	r.Stderr += fmt.Sprintf(format, args...) + "\n"
}

func (r *Reply) printf(format string, args ...any) {
	r.Stdout += fmt.Sprintf(format, args...) + "\n"
}

// verbs are the commands that take units.
var verbs = map[string]func(*Supervisor, context.Context, string, invocation, *Reply){
	"start":       (*Supervisor).verbStart,
	"stop":        (*Supervisor).verbStop,
	"restart":     (*Supervisor).verbRestart,
	"try-restart": (*Supervisor).verbRestart,
	"enable":      (*Supervisor).verbEnable,
	"disable":     (*Supervisor).verbEnable,
	"is-active":   (*Supervisor).verbIsActive,
	"is-enabled":  (*Supervisor).verbIsEnabled,
	"status":      (*Supervisor).verbStatus,
	"cat":         (*Supervisor).verbCat,
	"show":        (*Supervisor).verbShow,
}

// invocation is a parsed command line.
type invocation struct {
	verb  string
	units []string
	quiet bool
	now   bool
	// noBlock returns at once instead of when the job is done.
	noBlock bool
	// property is what to show of units, and value says to print it without its name.
	property string
	value    bool
}

func parseArgs(args []string) invocation {
	var in invocation
	for _, a := range args {
		switch {
		case a == "-q" || a == "--quiet":
			in.quiet = true
		case a == "--now":
			in.now = true
		case a == "--no-block":
			in.noBlock = true
		case a == "--value":
			in.value = true
		case strings.HasPrefix(a, "--property="):
			in.property = strings.TrimPrefix(a, "--property=")
		case strings.HasPrefix(a, "-"):
			// Options on the form of the output (--no-pager, -l) make no difference here.
		case in.verb == "":
			in.verb = a
		default:
			in.units = append(in.units, strings.TrimSuffix(a, ".service"))
		}
	}
	return in
}

// Systemctl answers `systemctl args...`. It waits for the job to be done, at most
// until ctx ends.
func (s *Supervisor) Systemctl(ctx context.Context, args []string) Reply {
	in := parseArgs(args)
	var r Reply
	switch in.verb {
	case "daemon-reload", "daemon-reexec", "reset-failed":
		return r
	case "is-system-running":
		r.printf("running")
		return r
	case "reboot":
		s.reboot(&r)
		return r
	}
	verb, ok := verbs[in.verb]
	if !ok {
		r.failf(codeFailure, "Unknown command verb %s.", in.verb)
		return r
	}
	if len(in.units) == 0 {
		r.failf(codeFailure, "Too few arguments.")
		return r
	}
	for _, name := range in.units {
		verb(s, ctx, name, in, &r)
	}
	if in.quiet {
		r.Stdout = ""
	}
	return r
}

// reboot returns before the reboot, as systemctl does.
func (s *Supervisor) reboot(r *Reply) {
	if s.cfg.Reboot == nil {
		r.failf(codeFailure, "Failed to reboot: this host cannot be switched on again.")
		return
	}
	if err := s.cfg.Reboot(); err != nil {
		r.failf(codeFailure, "Failed to reboot: %v", err)
	}
}

// with runs fn on the record of a unit, on the goroutine that owns it; false if
// there is no such unit.
func (s *Supervisor) with(name string, fn func(*record)) (found bool) {
	s.call(func() {
		if i := slices.IndexFunc(s.records, func(r *record) bool { return r.unit.Name == name }); i >= 0 {
			found = true
			fn(s.records[i])
		}
	})
	return found
}

// job changes a unit and waits until settled holds for it.
func (s *Supervisor) job(ctx context.Context, name string, in invocation, change func(*record), settled func(*record) bool) (found bool, err error) {
	done := make(chan struct{})
	found = s.with(name, func(r *record) {
		change(r)
		s.waiters = append(s.waiters, waiter{settled: func() bool { return settled(r) }, reply: done})
	})
	if !found || in.noBlock {
		return found, nil
	}
	select {
	case <-done:
	case <-s.done:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	return true, err
}

func (s *Supervisor) verbStart(ctx context.Context, name string, in invocation, r *Reply) {
	s.startJob(ctx, name, in, r, func(rec *record) {
		if rec.phase == backoff {
			rec.phase = inactive // an explicit start does not wait for the delay
		}
		rec.wanted = true
	})
}

func (s *Supervisor) verbRestart(ctx context.Context, name string, in invocation, r *Reply) {
	s.startJob(ctx, name, in, r, func(rec *record) {
		if in.verb == "try-restart" && !rec.running() {
			return
		}
		switch rec.phase {
		case starting, active:
			s.do(rec, rec.term(time.Now()), time.Now())
		case backoff:
			rec.phase = inactive
		case inactive, waiting, stopping:
		}
		rec.wanted = true
	})
}

func (s *Supervisor) startJob(ctx context.Context, name string, in invocation, r *Reply, change func(*record)) {
	failed := ""
	found, err := s.job(ctx, name, in, change, func(rec *record) bool {
		if rec.phase == backoff {
			failed = rec.last
			return true
		}
		// With an unmet condition systemd's start succeeds without doing anything.
		return rec.phase == active || rec.phase == waiting || !rec.wanted
	})
	switch {
	case !found:
		r.failf(codeNotLoaded, "Failed to %s %s.service: Unit %s.service not found.", in.verb, name, name)
	case err != nil:
		r.failf(codeFailure, "Job for %s.service timed out.", name)
	case failed != "":
		r.failf(codeFailure, "Job for %s.service failed: %s. See %s.", name, failed, filepath.Join(s.cfg.LogDir, name+".log"))
	}
}

func (s *Supervisor) verbStop(ctx context.Context, name string, in invocation, r *Reply) {
	found, err := s.job(ctx, name, in, func(rec *record) { rec.wanted = false },
		func(rec *record) bool { return rec.phase == inactive || rec.wanted })
	switch {
	case !found:
		r.failf(codeNotLoaded, "Failed to stop %s.service: Unit %s.service not loaded.", name, name)
	case err != nil:
		r.failf(codeFailure, "Job for %s.service timed out.", name)
	}
}

func (s *Supervisor) verbEnable(ctx context.Context, name string, in invocation, r *Reply) {
	enable := in.verb == "enable"
	var err error
	found := s.with(name, func(rec *record) {
		if err = s.markEnabled(name, enable); err == nil {
			rec.enabled = enable
		}
	})
	switch {
	case !found:
		r.failf(codeFailure, "Failed to %s unit: Unit file %s.service does not exist.", in.verb, name)
	case err != nil:
		r.failf(codeFailure, "Failed to %s unit: %v", in.verb, err)
	case in.now && enable:
		s.verbStart(ctx, name, in, r)
	case in.now:
		s.verbStop(ctx, name, in, r)
	}
}

func (s *Supervisor) markEnabled(name string, enabled bool) error {
	mark := s.disabledMark(name)
	if enabled {
		if err := os.Remove(mark); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(mark), 0o755); err != nil {
		return err
	}
	return os.WriteFile(mark, nil, 0o644)
}

func (s *Supervisor) verbIsActive(_ context.Context, name string, _ invocation, r *Reply) {
	state := "inactive"
	s.with(name, func(rec *record) { state = rec.activeState() })
	r.printf("%s", state)
	if state != "active" && r.Code == codeOK {
		r.Code = codeNotActive
	}
}

func (s *Supervisor) verbIsEnabled(_ context.Context, name string, _ invocation, r *Reply) {
	enabled := false
	if !s.with(name, func(rec *record) { enabled = rec.enabled }) {
		r.failf(codeFailure, "Failed to get unit file state for %s.service: No such file or directory", name)
		return
	}
	if enabled {
		r.printf("enabled")
		return
	}
	r.printf("disabled")
	if r.Code == codeOK {
		r.Code = codeFailure
	}
}

func (s *Supervisor) verbStatus(_ context.Context, name string, _ invocation, r *Reply) {
	text, state := "", ""
	if !s.with(name, func(rec *record) { text, state = rec.status(), rec.activeState() }) {
		r.failf(codeStatusUnknown, "Unit %s.service could not be found.", name)
		return
	}
	r.printf("%s", text)
	if state != "active" && r.Code == codeOK {
		r.Code = codeNotActive
	}
}

// verbShow knows the one property that programs of a host ask for. Systemd answers for a unit that it
// does not know, too.
func (s *Supervisor) verbShow(_ context.Context, name string, in invocation, r *Reply) {
	if in.property != "MainPID" {
		r.failf(codeFailure, "Only the property MainPID is known here, not %q.", in.property)
		return
	}
	pid := 0
	s.with(name, func(rec *record) { pid = rec.pid })
	if in.value {
		r.printf("%d", pid)
		return
	}
	r.printf("MainPID=%d", pid)
}

func (s *Supervisor) verbCat(_ context.Context, name string, _ invocation, r *Reply) {
	text := ""
	if !s.with(name, func(rec *record) { text = rec.unit.file() }) {
		r.failf(codeFailure, "No files found for %s.service.", name)
		return
	}
	r.printf("%s", text)
}
