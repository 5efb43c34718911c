package bootstrap

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
	"github.com/slipway-dev/slipway/internal/durable"
)

// BeginLog makes the log that of a claim: what programs printed for an earlier one, such as
// the tokens with which kubeadm lets nodes join, is nobody's any more. It stays until then,
// since it tells why that one failed, and is kept for every try of the claim.
func BeginLog(root hostfs.Root, claimID string) error {
	header := fmt.Sprintf("=== claim %s ===\n", claimID)
	if beginsWith(root, header) {
		return nil
	}
	// Another file, and not this one emptied: it could be a link to anything.
	err := durable.MakeParents(string(root), LogFile, 0o755, durable.Keep, durable.Keep)
	if err == nil {
		err = durable.WithParent(string(root), LogFile, func(d *durable.Dir, name string) error { return d.Remove(name) })
	}
	if err != nil {
		return fmt.Errorf("remove the log of an earlier claim: %w", err)
	}
	log, err := OpenLog(root)
	if err != nil {
		return fmt.Errorf("begin the log of bootstrap commands: %w", err)
	}
	_, err = io.WriteString(log, header)
	return errors.Join(err, log.Close())
}

// OpenLog opens the log for appending. Programs of a group may write to its directory.
func OpenLog(root hostfs.Root) (log *os.File, err error) {
	err = durable.WithParent(string(root), LogFile, func(d *durable.Dir, name string) (err error) {
		log, err = d.OpenLog(name)
		return err
	})
	return log, err
}

func openForReading(root hostfs.Root) (log *os.File, err error) {
	err = durable.WithParent(string(root), LogFile, func(d *durable.Dir, name string) (err error) {
		log, _, err = d.Open(name)
		return err
	})
	return log, err
}

func beginsWith(root hostfs.Root, header string) bool {
	log, err := openForReading(root)
	if err != nil {
		return false
	}
	defer func() { _ = log.Close() }()
	begin, _ := bufio.NewReader(io.LimitReader(log, int64(len(header)))).ReadString('\n')
	return begin == header
}
