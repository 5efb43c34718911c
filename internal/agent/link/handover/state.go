package handover

import (
	"fmt"
	"path/filepath"

	"github.com/slipway-dev/slipway/internal/agent/run/config"
	"github.com/slipway-dev/slipway/internal/durable"
	"github.com/slipway-dev/slipway/internal/host"
)

// stateFile is in the agent's state directory, readable by root only.
const stateFile = config.HandOverFile

// state is what outlives the process.
type state struct {
	// Signer is the public key of the management cluster that serves the host.
	Signer []byte `json:"signer,omitempty"`
	// Prepared is a verified hand-over that waits for the move; nil for none.
	Prepared *host.HandOver `json:"prepared,omitempty"`
	// LetGo is true once the management cluster said that it has no such Host, until it
	// shows it again: a host that is switched off on its way may not find it alive.
	LetGo bool `json:"letGo,omitempty"`
}

func load(dir string) (state, error) {
	var s state
	if _, err := durable.ReadJSON(filepath.Join(dir, stateFile), &s); err != nil {
		return state{}, fmt.Errorf("read %s in %s: %w; remove it, and the agent learns it anew", stateFile, dir, err)
	}
	return s, nil
}

func (s state) save(dir string) error {
	return durable.WriteJSON(filepath.Join(dir, stateFile), s, 0o600)
}
