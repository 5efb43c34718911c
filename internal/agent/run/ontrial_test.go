package run

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
	"github.com/slipway-dev/slipway/internal/agent/run/config"
	"github.com/slipway-dev/slipway/internal/agent/selfupdate"
)

// An agent on trial says that it has the state directory, waits for it if need be, and makes no
// journal there.
func TestAgentOnTrial(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fd, err := syscall.Dup(int(write.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(selfupdate.Variable, strconv.Itoa(fd))
	c := config.Default()
	c.Namespace, c.HostName, c.StateDir = "prod", "host-1", t.TempDir()
	c.BootstrapKubeconfig = filepath.Join(c.StateDir, "none")
	unlock, err := lock(c.StateDir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- (&Agent{Config: c, Root: hostfs.Root(t.TempDir()), Log: slog.New(slog.DiscardHandler)}).Run(ctx)
	}()
	time.Sleep(100 * time.Millisecond)
	unlock()
	word := make([]byte, 100)
	n, err := read.Read(word)
	if err != nil || string(word[:n]) != "started\n" {
		t.Errorf("%v: told %q", err, word[:n])
	}
	if !runs(c.StateDir) {
		t.Error("it has not the state directory")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(c.StateDir, config.JournalFile)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is a journal: %v", err)
	}
}
