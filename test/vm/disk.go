package vm

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/slipway-dev/slipway/internal/testenv/shared"
)

//go:embed debian.sh
var recipe []byte

// Disk is what machines boot from. It is never written to: each machine has a copy.
type Disk struct{ dir string }

// kept is how long a disk is booted from until another one is made: Debian mends what is on it.
const kept = 30 * 24 * time.Hour

// OpenDisk returns the disk of a release of Debian, and makes it where the folder has none
// of this recipe that is new enough. Of several that ask at once one makes it.
func OpenDisk(ctx context.Context, folder, suite string) (Disk, error) {
	d := Disk{dir: filepath.Join(folder, suite+"-"+recipeDigest())}
	return d, shared.Alone(d.dir, func() error {
		if d.fresh() {
			return nil
		}
		return d.make(ctx, suite)
	})
}

func (d Disk) make(ctx context.Context, suite string) error {
	// It has its name once it is whole.
	part, err := os.MkdirTemp(filepath.Dir(d.dir), suite+"-part-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(part) }()
	script := filepath.Join(part, "debian.sh")
	if err := os.WriteFile(script, recipe, 0o600); err != nil {
		return err
	}
	// mmdebstrap mounts in the root that it fills, which nobody else on the machine is to see
	if out, err := exec.CommandContext(ctx, "unshare", "--mount", "bash", script, suite, part).CombinedOutput(); err != nil {
		return fmt.Errorf("make the disk of a Debian machine: %w\n%s", err, out)
	}
	return errors.Join(os.RemoveAll(d.dir), os.Rename(part, d.dir))
}

// fresh is whether the disk is there and new enough.
func (d Disk) fresh() bool {
	made, err := os.Stat(d.dir)
	return err == nil && time.Since(made.ModTime()) < kept
}

// recipeDigest tells disks of different recipes apart.
func recipeDigest() string {
	sum := sha256.Sum256(recipe)
	return hex.EncodeToString(sum[:6])
}

// HostKey is what sshd of the machines shows.
func (d Disk) HostKey() (ssh.PublicKey, error) {
	data, err := os.ReadFile(filepath.Join(d.dir, "host-key.pub"))
	if err != nil {
		return nil, err
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey(data) //nolint:dogsled // so it is made
	return key, err
}

// copyTo makes a disk that a machine may write to. Holes stay holes.
func (d Disk) copyTo(ctx context.Context, path string) error {
	if out, err := exec.CommandContext(ctx, "cp", "--sparse=always", "--reflink=auto", filepath.Join(d.dir, "disk.img"), path).CombinedOutput(); err != nil {
		return fmt.Errorf("copy the disk: %w: %s", err, out)
	}
	return nil
}
