package forward

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/durable"
)

// Table maps a cluster, as <namespace>/<name>, to its port on 127.0.0.1.
type Table map[string]int

// File is where the table is kept inside a state directory.
const File = "forwards.json"

// Read returns the table of a state directory, an empty one if there is none.
func Read(stateDir string) (Table, error) {
	data, err := os.ReadFile(filepath.Join(stateDir, File))
	if errors.Is(err, fs.ErrNotExist) {
		return Table{}, nil
	}
	if err != nil {
		return nil, err
	}
	table := Table{}
	if err := json.Unmarshal(data, &table); err != nil {
		return nil, fmt.Errorf("%s: %w", File, err)
	}
	return table, nil
}

// Port of a cluster, 0 when it has none yet.
func (t Table) Port(cluster client.ObjectKey) int { return t[cluster.String()] }

func (t Table) write(stateDir string) error {
	data, err := json.MarshalIndent(t, "", "  ")
	if err != nil {
		return err
	}
	return durable.Write(filepath.Join(stateDir, File), append(data, '\n'), 0o600)
}
