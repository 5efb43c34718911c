package handover

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
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
	data, err := os.ReadFile(filepath.Join(dir, stateFile))
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil {
		return s, fmt.Errorf("read %s in %s: %w; remove it, and the agent learns it anew", stateFile, dir, err)
	}
	return s, nil
}

func (s state) save(dir string) error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return durable.Write(filepath.Join(dir, stateFile), data, 0o600)
}
