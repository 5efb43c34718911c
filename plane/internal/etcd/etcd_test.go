package etcd

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/internal/testenv/level"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/internal/testenv/rights"
)

// TestMain lets the test binary be a process with an etcd, to be killed or to
// run out of disk.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 {
		switch os.Args[1] {
		case "write":
			exit(write(os.Args[2]))
		case "fill":
			exit(fill(os.Args[2]))
		}
	}
	os.Exit(m.Run())
}

func exit(err error) {
	if err != nil {
		fmt.Println("ERROR", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// write commits keys for ever and prints each once it is committed.
func write(dir string) error {
	s, err := Open(context.Background(), Options{Dir: dir})
	for i := 0; err == nil; i++ {
		key := fmt.Sprintf("key-%06d", i)
		if err = put(s, key, []byte("value")); err == nil {
			fmt.Println(key)
		}
	}
	return err
}

// fill runs etcd on a disk of its own that is too small, until it dies.
func fill(dir string) error {
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64m"); err != nil {
		return err
	}
	s, err := Open(context.Background(), Options{Dir: filepath.Join(dir, "etcd")})
	if err != nil {
		return err
	}
	value := bytes.Repeat([]byte("x"), 1<<20)
	for i := 0; err == nil; i++ {
		err = put(s, fmt.Sprint(i), value)
	}
	<-s.Done()
	var full *NoSpaceError
	if !errors.As(s.Err(), &full) {
		return fmt.Errorf("not a NoSpaceError: %w", s.Err())
	}
	fmt.Println(full)
	return s.Stop(context.Background())
}

func start(t *testing.T, opts Options) *Server {
	t.Helper()
	s, err := Open(poll.Context(t), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, s) })
	return s
}

func stop(t *testing.T, s *Server) {
	t.Helper()
	if err := s.Stop(context.Background()); err != nil {
		t.Error(err)
	}
}

func put(s *Server, key string, value []byte) error {
	_, err := s.etcd.Server.Put(context.Background(), &pb.PutRequest{Key: []byte(key), Value: value})
	return err
}

func TestKill(t *testing.T) {
	level.Deep(t)
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "write", dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var committed []string
	for sc := bufio.NewScanner(out); sc.Scan(); {
		committed = append(committed, sc.Text())
		if len(committed) == 100 {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait()
	if len(committed) < 100 {
		t.Fatalf("only %d keys were written: %v", len(committed), committed)
	}

	s := start(t, Options{Dir: dir})
	resp, err := s.etcd.Server.Range(t.Context(), &pb.RangeRequest{Key: []byte("key-"), RangeEnd: []byte("key."), CountOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if resp.Count < int64(len(committed)) {
		t.Errorf("%d of %d committed keys are left", resp.Count, len(committed))
	}
}

func TestSecondServerIsRefused(t *testing.T) {
	dir := t.TempDir()
	start(t, Options{Dir: dir, Fast: true})
	err := New(Options{Dir: dir}).Init(t.Context())
	var locked *LockedError
	if !errors.As(err, &locked) {
		t.Fatalf("got %v, want a LockedError", err)
	}
	if locked.PID != os.Getpid() {
		t.Errorf("holder is %d, want %d", locked.PID, os.Getpid())
	}
}

func TestFullDisk(t *testing.T) {
	level.Deep(t)
	if os.Geteuid() != 0 {
		rights.Skip(t, "needs root for a mount namespace")
	}
	cmd := exec.Command(os.Args[0], "fill", t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	out, err := cmd.Output()
	if strings.Contains(string(out), syscall.EPERM.Error()) {
		rights.Skip(t, "no mount namespaces here")
	}
	if err != nil || !strings.Contains(string(out), "free some space") {
		t.Errorf("%v: %s", err, out)
	}
}

func TestQuota(t *testing.T) {
	level.Deep(t)
	s := start(t, Options{Dir: t.TempDir(), Fast: true, Quota: 8 << 20})
	for i := range 200 {
		if err := put(s, fmt.Sprintf("small-%d", i), nil); err != nil {
			t.Fatal(err)
		}
	}
	// Small enough that the alarm comes close to the quota.
	value := bytes.Repeat([]byte("x"), 32<<10)
	var err error
	for i := 0; err == nil && i < 1024; i++ {
		err = put(s, "one key", value)
	}
	if err == nil {
		t.Fatal("the quota was never reached")
	}
	var quota *QuotaError
	if err := s.Ready(t.Context()); !errors.As(err, &quota) {
		t.Fatalf("Ready says %v, want a QuotaError", err)
	}
	if err := s.relieve(t.Context()); !errors.As(err, &quota) {
		t.Fatalf("nothing was compacted, but the alarm was lifted: %v", err)
	}
	resp, err := s.etcd.Server.Range(t.Context(), &pb.RangeRequest{Key: []byte("one key")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.etcd.Server.Compact(t.Context(), &pb.CompactionRequest{Revision: resp.Header.Revision, Physical: true}); err != nil {
		t.Fatal(err)
	}
	// What a compaction frees counts as free from the commit after the next one on: the
	// deletes that an operator goes on with make them.
	deleted := 0
	poll.Until(t, "the alarm is lifted", func() error {
		_, err := s.etcd.Server.DeleteRange(t.Context(), &pb.DeleteRangeRequest{Key: fmt.Appendf(nil, "small-%d", deleted)})
		deleted++
		return errors.Join(err, s.relieve(t.Context()))
	})
	if err := errors.Join(s.Ready(t.Context()), put(s, "two", value)); err != nil {
		t.Errorf("after room was made: %v", err)
	}
}

// TestStopWithWatch stops while a client that never closes its watch is
// connected, as kube-apiserver is.
func TestStopWithWatch(t *testing.T) {
	s := start(t, Options{Dir: t.TempDir(), Fast: true})
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Endpoint()}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	events := client.Watch(t.Context(), "k", clientv3.WithCreatedNotify())
	if r := <-events; !r.Created {
		t.Fatalf("no watch: %v", r)
	}
	// as long as etcd waits for a watch that stays: days
	s.etcd.Server.Cfg.ElectionTicks = 10_000_000
	stopped := make(chan error, 1)
	go func() { stopped <- s.Stop(context.WithoutCancel(t.Context())) }()
	if err := poll.Receive(t, "etcd has stopped", stopped); err != nil {
		t.Error(err)
	}
}

func TestDataDirectoryIsSmallAndPrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "etcd")
	s := start(t, Options{Dir: dir, Fast: true})
	if err := put(s, "k", []byte("v")); err != nil {
		t.Fatal(err)
	}
	var size int64
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && !d.IsDir() {
			size += info.Size()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if size > 32<<20 {
		t.Errorf("an empty etcd takes %d MiB", size>>20)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, error %v", info.Mode(), err)
	}
}

func TestLongPathIsExplained(t *testing.T) {
	err := New(Options{Dir: filepath.Join(t.TempDir(), strings.Repeat("long", 30))}).Init(t.Context())
	if err == nil || !strings.Contains(err.Error(), "shorter state directory") {
		t.Errorf("got %v", err)
	}
}

func TestAny(t *testing.T) {
	s := start(t, Options{Dir: filepath.Join(t.TempDir(), "etcd"), Fast: true})
	if err := put(s, "/registry/secrets/n/s", []byte("v")); err != nil {
		t.Fatal(err)
	}
	for prefix, want := range map[string]bool{"/registry/secrets/": true, "/registry/configmaps/": false, "/registry/secretsstore/": false} {
		if got, err := s.Any(t.Context(), prefix); err != nil || got != want {
			t.Errorf("Any(%s) = %v, %v, want %v", prefix, got, err, want)
		}
	}
}
