package selfupdate

import (
	"io"
	"path/filepath"

	"github.com/slipway-dev/slipway/internal/durable"
	"github.com/slipway-dev/slipway/internal/hostbundle"
)

func recordPath(stateDir string) string { return filepath.Join(stateDir, recordFile) }

func staging(stateDir string) hostbundle.Staging {
	return hostbundle.Staging{Dir: filepath.Join(stateDir, stagingDir)}
}

// writeProgram writes one that can be executed.
func writeProgram(path string, content io.Reader) error {
	return durable.Stream(path, 0o755, func(w io.Writer) error {
		_, err := io.Copy(w, content)
		return err
	})
}
