package statedir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/slipway-dev/slipway/internal/durable"
)

// crashesFile is inside the state directory.
const crashesFile = "crashes.json"

// Crashes are those of a plane since `slipway up` started it.
type Crashes struct {
	// Count is how often it crashed, and Last when it did so the last time.
	Count int       `json:"count"`
	Last  time.Time `json:"last"`
	// What is how it ended then: the first line of a panic, say.
	What string `json:"what"`
	// Next is when it is started again after that.
	Next time.Time `json:"next"`
}

// ReadCrashes returns the crashes of the plane that serves, or served, stateDir; the zero value when there
// were none.
func ReadCrashes(stateDir string) (Crashes, error) {
	var c Crashes
	data, err := os.ReadFile(filepath.Join(stateDir, crashesFile))
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	if err != nil {
		return Crashes{}, fmt.Errorf("read the plane's crashes: %w", err)
	}
	return c, nil
}

// WriteCrashes records the crashes of the plane that serves stateDir.
func WriteCrashes(stateDir string, c Crashes) error {
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return durable.Write(filepath.Join(stateDir, crashesFile), data, 0o600)
}

// RemoveCrashes has the crashes count from zero.
func RemoveCrashes(stateDir string) error { return remove(stateDir, crashesFile) }

// RemoveStatus removes the status of the last plane, which is not the next one's.
func RemoveStatus(stateDir string) error { return remove(stateDir, statusFile) }

func remove(stateDir, file string) error {
	if err := os.Remove(filepath.Join(stateDir, file)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
