package main

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// sourceFile makes a file of one content with a time and mode of its own.
func sourceFile(t *testing.T, mode os.FileMode, modified time.Time) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "source")
	if err := os.WriteFile(path, []byte("program"), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, modified, modified); err != nil {
		t.Fatal(err)
	}
	return path
}

func mustLayer(t *testing.T, entries ...entry) *layer {
	t.Helper()
	l, err := newLayer(t.Name(), entries...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestLayerDependsOnContentAlone(t *testing.T) {
	early := sourceFile(t, 0o700, time.Unix(1, 0))
	late := sourceFile(t, 0o644, time.Unix(1e9, 0))

	a := mustLayer(t, program("usr/bin/p", early), file("etc/f", "x"), symlink("usr/bin/q", "p"))
	b := mustLayer(t, symlink("usr/bin/q", "p"), file("etc/f", "x"), program("usr/bin/p", late))
	if a.digest != b.digest {
		t.Errorf("equal content in another order gave %s and %s", a.digest, b.digest)
	}

	other := mustLayer(t, program("usr/bin/p", early), file("etc/f", "y"), symlink("usr/bin/q", "p"))
	if a.digest == other.digest {
		t.Error("different content gave the same digest")
	}
}

func TestLayerStreamMatchesItsDescription(t *testing.T) {
	l := mustLayer(t, program("bin/p", sourceFile(t, 0o644, time.Now())), directory("tmp", 0o777|os.ModeSticky))
	stream, err := l.Compressed()
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	hash := sha256.New()
	size, err := io.Copy(hash, stream)
	if err != nil {
		t.Fatal(err)
	}
	if got := hex.EncodeToString(hash.Sum(nil)); got != l.digest.Hex {
		t.Errorf("the stream has digest %s, the layer says %s", got, l.digest.Hex)
	}
	if size != l.size {
		t.Errorf("the stream has %d bytes, the layer says %d", size, l.size)
	}
}

func TestLayerHeaders(t *testing.T) {
	l := mustLayer(t,
		program("usr/bin/p", sourceFile(t, 0o600, time.Now())),
		symlink("usr/bin/q", "p"),
		file("etc/f", "x"),
		directory("tmp", 0o777|os.ModeSticky),
	)
	want := map[string]int64{
		"etc/": 0o755, "etc/f": 0o644, "tmp/": 0o1777,
		"usr/": 0o755, "usr/bin/": 0o755, "usr/bin/p": 0o755, "usr/bin/q": 0o777,
	}
	var order []string
	for _, h := range headers(t, l) {
		order = append(order, h.Name)
		if mode, ok := want[h.Name]; !ok || h.Mode != mode {
			t.Errorf("%s has mode %#o, want %#o (known: %v)", h.Name, h.Mode, mode, ok)
		}
		if !h.ModTime.Equal(time.Unix(0, 0)) || h.Uid != 0 || h.Gid != 0 {
			t.Errorf("%s carries time %s and owner %d:%d", h.Name, h.ModTime, h.Uid, h.Gid)
		}
	}
	if len(order) != len(want) || !slices.IsSorted(order) {
		t.Errorf("entries %v are not the %d expected in order", order, len(want))
	}
}

func headers(t *testing.T, l *layer) []*tar.Header {
	t.Helper()
	stream, err := l.Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	var all []*tar.Header
	for tr := tar.NewReader(stream); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, h)
	}
}

func TestLayerNamesTheMissingFile(t *testing.T) {
	_, err := newLayer("etcd", program("usr/bin/etcd", filepath.Join(t.TempDir(), "etcd")))
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want an error that wraps ErrNotExist", err)
	}
}
