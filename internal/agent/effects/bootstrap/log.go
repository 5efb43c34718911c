package bootstrap

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
)

// BeginLog makes the log that of a claim: what programs printed for an earlier one, such as
// the tokens with which kubeadm lets nodes join, is nobody's any more. It stays until then,
// since it tells why that one failed, and is kept for every try of the claim.
func BeginLog(root hostfs.Root, claimID string) error {
	path, header := root.Path(LogFile), fmt.Sprintf("=== claim %s ===\n", claimID)
	if beginsWith(path, header) {
		return nil
	}
	// Another file, and not this one emptied: it could be a link to anything.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the log of an earlier claim: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	log, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("begin the log of bootstrap commands: %w", err)
	}
	_, err = io.WriteString(log, header)
	return errors.Join(err, log.Close())
}

func beginsWith(path, header string) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	log, err := os.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = log.Close() }()
	begin, _ := bufio.NewReader(io.LimitReader(log, int64(len(header)))).ReadString('\n')
	return begin == header
}
