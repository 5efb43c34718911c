package selfupdate

import (
	"fmt"
	"time"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"

	"github.com/slipway-dev/slipway/internal/agent/run/config"
	"github.com/slipway-dev/slipway/internal/durable"
)

// Names in the state directory.
const (
	recordFile = config.UpdateFile
	stagingDir = config.UpdateDirectory
)

// maxAttempts is how often one bundle is tried.
const maxAttempts = 3

// Record is what an agent knows of an update after a restart.
type Record struct {
	// Version and ReleaseDigest are what was ordered.
	Version       string `json:"version"`
	ReleaseDigest string `json:"releaseDigest"`
	// Attempts counts the trials that were begun.
	Attempts int `json:"attempts,omitempty"`
	// State as in Host.status.agentUpdate.
	State infrav1.HostAgentUpdateState `json:"state"`
	// Message tells what stands in the way and what to do.
	Message string `json:"message,omitempty"`
	// NextTry is when the next trial may begin.
	NextTry time.Time `json:"nextTry,omitzero"`
}

// Read returns the record in a state directory; nil when there is none.
func Read(stateDir string) (*Record, error) {
	path, r := recordPath(stateDir), &Record{}
	found, err := durable.ReadJSON(path, r)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s is no record of an update: %w; remove it", path, err)
	case !found:
		return nil, nil
	}
	return r, nil
}

func (r *Record) of(o Order) bool {
	return r.Version == o.Version && r.ReleaseDigest == o.ReleaseDigest
}

// report is the record as the Host shows it.
func (r *Record) report() *infrav1.HostAgentUpdate {
	if r == nil {
		return nil
	}
	return &infrav1.HostAgentUpdate{Version: r.Version, ReleaseDigest: r.ReleaseDigest, State: r.State, Message: r.Message}
}

// begun is the record before one more trial, which may take the machine down.
func (r Record) begun(now time.Time, retry time.Duration) Record {
	r.Attempts++
	r.State, r.Message, r.NextTry = infrav1.HostAgentUpdateTrying, "", now.Add(pause(r.Attempts, retry))
	return r
}

// failed is the record after a trial that failed.
func (r Record) failed(why string, now time.Time, retry time.Duration) Record {
	r.State, r.Message = infrav1.HostAgentUpdateFetching, fmt.Sprintf("tried %d of %d times: %s", r.Attempts, maxAttempts, why)
	if r.Attempts >= maxAttempts {
		return r.hopeless(r.Message)
	}
	r.NextTry = now.Add(pause(r.Attempts, retry))
	r.Message += "; the next try is at " + r.NextTry.UTC().Format(time.RFC3339)
	return r
}

// hopeless is the record of a bundle that is not tried again.
func (r Record) hopeless(why string) Record {
	r.State, r.NextTry = infrav1.HostAgentUpdateFailed, time.Time{}
	r.Message = why + "; this bundle is not tried again: load a mended release"
	return r
}

// unbegun is the record after a trial that says nothing of the new agent.
func (r Record) unbegun(why string, next time.Time) Record {
	r.Attempts--
	r.State, r.Message, r.NextTry = infrav1.HostAgentUpdateFetching, why, next
	return r
}

// pause is the least time after a trial.
func pause(attempts int, retry time.Duration) time.Duration { return time.Duration(attempts) * retry }
