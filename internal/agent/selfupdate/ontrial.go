package selfupdate

import (
	"fmt"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// Variable has, in the environment of an agent on trial, the number of the file descriptor by
// which it tells the agent that judges it how far it is.
const Variable = "SLIPWAY_AGENT_TRIAL"

// What is told.
const (
	wordStarted  = "started"
	wordReported = "reported"
)

// Trial is how an agent on trial tells how far it is. Nil, that of an agent which is not on
// trial, tells nobody.
type Trial struct {
	version string
	pipe    *os.File

	mu sync.Mutex
	// renewed and applied are what the management cluster has accepted; told is true once that
	// was told.
	renewed, applied, told bool
}

// OnTrial is the trial of this process, an agent of the version; nil when it is not on trial.
// Programs that it starts do not hear of the trial.
func OnTrial(version string) (*Trial, error) {
	value, found := os.LookupEnv(Variable)
	if !found {
		return nil, nil
	}
	var stat unix.Stat_t
	fd, err := strconv.Atoi(value)
	if err == nil {
		err = unix.Fstat(fd, &stat)
	}
	if err != nil || stat.Mode&unix.S_IFMT != unix.S_IFIFO {
		return nil, fmt.Errorf("%s is %q in the environment, which only slipway-agent sets for another version of itself: start this one without it", Variable, value)
	}
	unix.CloseOnExec(fd)
	return &Trial{version: version, pipe: os.NewFile(uintptr(fd), Variable)}, os.Unsetenv(Variable)
}

// Started is for an agent that has the state directory and keeps the control-plane address.
func (t *Trial) Started() {
	if t != nil {
		t.tell(wordStarted)
	}
}

// Renewed is for an agent whose management cluster has accepted a heartbeat.
func (t *Trial) Renewed() { t.accepted(true, false) }

// Reported is for an agent whose management cluster has accepted a status, which has a
// version of the agent.
func (t *Trial) Reported(version string) {
	if t != nil {
		t.accepted(false, version == t.version)
	}
}

func (t *Trial) accepted(renewed, applied bool) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.renewed, t.applied = t.renewed || renewed, t.applied || applied
	if t.renewed && t.applied && !t.told {
		t.told = true
		t.tell(wordReported)
	}
}

// tell needs no error: who does not listen any more is about to end this process.
func (t *Trial) tell(word string) { _, _ = t.pipe.WriteString(word + "\n") }
