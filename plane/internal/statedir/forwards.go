package statedir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/slipway-dev/slipway/internal/durable"
)

// Forwards maps a cluster, as <namespace>/<name>, to its port on 127.0.0.1.
type Forwards map[string]int

// ForwardsFile is where they are kept inside a state directory.
const ForwardsFile = "forwards.json"

// ReadForwards returns the forwards of a state directory, none if there is no file.
func ReadForwards(stateDir string) (Forwards, error) {
	data, err := os.ReadFile(filepath.Join(stateDir, ForwardsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return Forwards{}, nil
	}
	if err != nil {
		return nil, err
	}
	forwards := Forwards{}
	if err := json.Unmarshal(data, &forwards); err != nil {
		return nil, fmt.Errorf("%s: %w", ForwardsFile, err)
	}
	return forwards, nil
}

// Port of a cluster by its key, 0 when it has none yet.
func (f Forwards) Port(cluster fmt.Stringer) int { return f[cluster.String()] }

// Write replaces the forwards of a state directory.
func (f Forwards) Write(stateDir string) error {
	data, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	return durable.Write(filepath.Join(stateDir, ForwardsFile), append(data, '\n'), 0o600)
}
