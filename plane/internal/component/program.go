package component

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// CheckProgram fails unless the program is there, and says where it comes from.
func CheckProgram(path string) error {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is missing: it belongs beside slipway, take it from the same release or run `make binaries`", path)
	}
	if err != nil {
		return fmt.Errorf("look for the programs beside slipway: %w", err)
	}
	return nil
}
