package statedir

import (
	"path/filepath"
	"time"

	"github.com/slipway-dev/slipway/internal/durable"
)

// backupFile is inside the state directory.
const backupFile = "backup.json"

// Backup is the last one of a plane.
type Backup struct {
	// Created is when its snapshot was taken.
	Created time.Time `json:"created"`
	// Path it was written to.
	Path string `json:"path"`
}

// LastBackup returns the last backup; nil when there was none.
func LastBackup(stateDir string) (*Backup, error) {
	var b Backup
	found, err := durable.ReadJSON(filepath.Join(stateDir, backupFile), &b)
	if err != nil || !found {
		return nil, err
	}
	return &b, nil
}

// RecordBackup records the last backup.
func RecordBackup(stateDir string, b Backup) error {
	return durable.WriteJSON(filepath.Join(stateDir, backupFile), b, 0o600)
}
