package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const testDigest = "sha256:1"

// testBundle is an assembled bundle of two tiny images with no programs.
func testBundle(t *testing.T) string {
	t.Helper()
	bundle := t.TempDir()
	archive := testArchive(t)
	m := manifest{Digest: testDigest, Archive: "images/test.tar", Images: shortNames(testRecipes)}
	err := errors.Join(
		replaceFile(filepath.Join(bundle, m.Archive), 0o644, func(w io.Writer) error {
			_, err := w.Write(archive)
			return err
		}),
		writeManifest(bundle, m),
	)
	if err != nil {
		t.Fatal(err)
	}
	return bundle
}

func needsRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		skip(t, "unpacking images needs root")
	}
}

// skip leaves a test out, but not where all must run.
func skip(t *testing.T, why ...any) {
	t.Helper()
	if os.Getenv("SLIPWAY_REQUIRE_ROOT") == "1" {
		t.Fatal(why...)
	}
	t.Skip(why...)
}

// compiledPrograms is the bin directory of the bundle that make builds.
func compiledPrograms(t *testing.T) string {
	t.Helper()
	needsRoot(t)
	programs, err := filepath.Abs("../../bin/bundle/bin")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(programs, "ctr")); err != nil {
		skip(t, "run make bundle first:", err)
	}
	return programs
}

func TestSeedUnpacksEveryImage(t *testing.T) {
	programs, bundle := compiledPrograms(t), testBundle(t)
	if err := os.Symlink(programs, filepath.Join(bundle, "bin")); err != nil {
		t.Fatal(err)
	}
	// What a run that lost its power left behind.
	if err := os.Mkdir(filepath.Join(bundle, stagingPrefix+"left"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := seed(context.Background(), bundle, io.Discard); err != nil {
		t.Fatal(err)
	}
	if !storeIsCurrent(bundle, testDigest) {
		t.Error("the store is not current after it was made")
	}
	if left, _ := filepath.Glob(filepath.Join(bundle, stagingPrefix+"*")); len(left) != 0 {
		t.Errorf("%v are left", left)
	}
	if !isCurrent(bundle, testDigest) || isCurrent(bundle, "sha256:2") {
		t.Error("the bundle is not current by its store alone, or current for other inputs")
	}
	if _, err := os.Stat(filepath.Join(bundle, "images/test.tar")); err == nil {
		t.Error("the archive is kept beside the store")
	}
	daemon, err := startContainerd(context.Background(), programs, filepath.Join(bundle, storeName))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := daemon.stop(); err != nil {
			t.Error(err)
		}
	}()
	listed, err := daemon.ctr(context.Background(), "images", "ls")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range testRecipes {
		if !strings.Contains(listed, r.ref) {
			t.Errorf("%s is not in the store", r.ref)
		}
	}
	if got := strings.Count(listed, importLabels[0]); got != len(testRecipes) {
		t.Errorf("%d images are pinned, want %d:\n%s", got, len(testRecipes), listed)
	}
	snapshots, err := daemon.ctr(context.Background(), "snapshots", "--snapshotter", "overlayfs", "ls")
	if err != nil {
		t.Fatal(err)
	}
	// The shared layer and one more for each image.
	if got := strings.Count(snapshots, "Committed"); got != 3 {
		t.Errorf("%d snapshots are unpacked, want 3:\n%s", got, snapshots)
	}
}

func TestSeedReportsAContainerdThatDoesNotStart(t *testing.T) {
	needsRoot(t)
	bundle := testBundle(t)
	daemon := filepath.Join(bundle, "bin", "containerd")
	if err := os.Mkdir(filepath.Dir(daemon), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(daemon, []byte("#!/bin/sh\necho broken disk\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	err := seed(context.Background(), bundle, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "broken disk") {
		t.Errorf("got %v, want what containerd logged", err)
	}
	if left, _ := filepath.Glob(filepath.Join(bundle, stagingPrefix+"*")); len(left) != 0 {
		t.Errorf("%v are left", left)
	}
}

func TestSeedLeavesACurrentStoreAlone(t *testing.T) {
	bundle := testBundle(t)
	staging := filepath.Join(bundle, stagingPrefix+"1")
	if err := os.Mkdir(staging, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := publishStore(bundle, staging, testDigest); err != nil {
		t.Fatal(err)
	}
	// There is no containerd in this bundle, so any attempt to import would fail.
	var out bytes.Buffer
	if err := seed(context.Background(), bundle, &out); err != nil || out.Len() != 0 {
		t.Errorf("got %v and output %q, want neither", err, out.String())
	}
	if storeIsCurrent(bundle, "sha256:2") {
		t.Error("the store counts as current for another bundle")
	}
}

func TestSeedNeedsAnAssembledBundle(t *testing.T) {
	err := seed(context.Background(), t.TempDir(), io.Discard)
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "not assembled") {
		t.Errorf("got %v, want that the bundle is not assembled", err)
	}
}

func TestRunRefusesBadArguments(t *testing.T) {
	for _, args := range [][]string{nil, {"seed"}, {"assemble", "--bundle", "x"}, {"burn"}} {
		if err := run(context.Background(), args, io.Discard); !errors.Is(err, errUsage) {
			t.Errorf("%v: got %v, want the usage", args, err)
		}
	}
}
