package hostbundle

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/slipway-dev/slipway/internal/durable"
	"github.com/slipway-dev/slipway/internal/testenv/powercut"
)

// blobsOf are the names of all files below blobs.
func blobsOf(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "blobs", "sha256"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func versionsOf(t *testing.T, s Store) []string {
	t.Helper()
	list, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	var versions []string
	for _, v := range list {
		versions = append(versions, v.Tag)
	}
	return versions
}

func load(t *testing.T, s Store, dir string, versions ...string) error {
	t.Helper()
	d, err := OpenDirectory(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Load(d, nil, versions...)
	return err
}

// A store has each content once, gives it back with the last version that needs it, and
// what it has a host can verify.
func TestStore(t *testing.T) {
	signer, keys := newKeys(t)
	dir := layoutOf(t, signer)
	s := Store{Dir: filepath.Join(t.TempDir(), "new", "store")}
	if got := versionsOf(t, s); len(got) > 0 {
		t.Errorf("versions %v of no store", got)
	}
	if err := load(t, s, dir, newer); err != nil {
		t.Fatal(err)
	}
	one := blobsOf(t, s.Dir)
	if err := load(t, s, dir); err != nil {
		t.Fatal(err)
	}
	both := blobsOf(t, s.Dir)
	if got, want := len(both), len(blobsOf(t, dir)); got != want {
		t.Errorf("%d blobs, the source has %d", got, want)
	}
	b, err := bundle(s.Dir, keys)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := unpackAll(b); err != nil {
		t.Error(err)
	}
	if err := load(t, s, dir); err != nil || !slices.Equal(blobsOf(t, s.Dir), both) {
		t.Errorf("loaded again: %v, %v", blobsOf(t, s.Dir), err)
	}
	if err := s.Remove(older); err != nil {
		t.Fatal(err)
	}
	if got := versionsOf(t, s); !slices.Equal(got, []string{newer}) || !slices.Equal(blobsOf(t, s.Dir), one) {
		t.Errorf("versions %v, blobs %v, want %v", got, blobsOf(t, s.Dir), one)
	}
	var own *Error
	if err := s.Remove(older); !errors.As(err, &own) || own.Reason != ReasonNotFound {
		t.Errorf("removed again: %v", err)
	}
	if err := s.Remove(newer); err != nil || len(versionsOf(t, s)) > 0 || len(blobsOf(t, s.Dir)) > 0 {
		t.Errorf("removed all: %v, %v", blobsOf(t, s.Dir), err)
	}
}

// What a kill left is no part of the store, and goes; what is damaged is mended by loading it
// again.
func TestStoreIsMended(t *testing.T) {
	signer, keys := newKeys(t)
	dir := layoutOf(t, signer)
	s := Store{Dir: t.TempDir()}
	if err := load(t, s, dir); err != nil {
		t.Fatal(err)
	}
	whole := blobsOf(t, s.Dir)
	for _, name := range whole {
		path := filepath.Join(s.Dir, "blobs", "sha256", name)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.WriteFile(path, data[:len(data)/2], 0o600), os.WriteFile(filepath.Join(s.Dir, "blobs", "sha256", durable.Temporary("blob")+"1"), data, 0o600)); err != nil {
			t.Fatal(err)
		}
		if err := load(t, s, dir); err != nil {
			t.Fatalf("%s is cut: %v", name, err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != string(data) {
			t.Errorf("%s was not mended: %v", name, err)
		}
	}
	if got := blobsOf(t, s.Dir); !slices.Equal(got, whole) {
		t.Errorf("blobs %v, want %v", got, whole)
	}
	// A damaged version is named, hides no other one, and may be removed.
	v, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(s.Dir, "blobs", "sha256", v[0].Digest.Encoded()), 3); err != nil {
		t.Fatal(err)
	}
	if left, err := s.List(); err == nil || !strings.Contains(err.Error(), older) || len(left) != 1 {
		t.Errorf("list %v, %v", left, err)
	}
	if digests, err := s.Digests(); err != nil || digests[older] != v[0].Digest || len(digests) != 2 {
		t.Errorf("digests %v, %v", digests, err)
	}
	if err := s.Remove(newer); err == nil || !strings.Contains(err.Error(), "load it again, or remove it") {
		t.Errorf("removed beside a damaged one: %v", err)
	}
	if err := s.Remove(older); err != nil {
		t.Error(err)
	}
	if b, err := bundle(s.Dir, keys); err != nil {
		t.Error(err)
	} else if _, err := unpackAll(b); err != nil {
		t.Error(err)
	}
}

func TestStoreRefuses(t *testing.T) {
	signer, _ := newKeys(t)
	_, others := newKeys(t)
	dir := layoutOf(t, signer)
	d, err := OpenDirectory(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := Store{Dir: filepath.Join(t.TempDir(), "store")}
	reason := func(err error) Reason {
		var own *Error
		if errors.As(err, &own) {
			return own.Reason
		}
		return ""
	}
	if _, err := s.Load(d, &others); reason(err) != ReasonUntrusted {
		t.Errorf("signed by another key: %v", err)
	}
	if _, err := s.Load(d, nil, "v1.2.3"); reason(err) != ReasonNotFound {
		t.Errorf("a version that is not there: %v", err)
	}
	unsigned := *d
	unsigned.index.Manifests = d.named()
	if _, err := s.Load(&unsigned, nil); reason(err) != ReasonUnsigned {
		t.Errorf("unsigned: %v", err)
	}
	if _, err := os.Stat(s.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something was written: %v", err)
	}
	for _, name := range blobsOf(t, dir) {
		path := filepath.Join(dir, "blobs", "sha256", name)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, append([]byte("x"), data[1:]...), 0o600); err != nil {
			t.Fatal(err)
		}
		// What was copied before is whole, and would do.
		s := Store{Dir: t.TempDir()}
		if err := load(t, s, dir, newer, older); reason(err) != ReasonCorrupt {
			t.Errorf("%s is damaged: %v", name, err)
		}
		if got := versionsOf(t, s); len(got) > 0 {
			t.Errorf("loaded %v", got)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// A power cut at any change of the disk: the store has the bundle as it was or as it shall be,
// and the same command gets there.
func TestStorePowerCuts(t *testing.T) {
	signer, _ := newKeys(t)
	dir := layoutOf(t, signer)
	for name, c := range map[string]struct {
		do   func(s Store) error
		want []string
	}{
		"load":   {func(s Store) error { return load(t, s, dir, newer) }, []string{older, newer}},
		"remove": {func(s Store) error { return s.Remove(older) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			for n := 1; ; n++ {
				s := Store{Dir: t.TempDir()}
				if err := load(t, s, dir, older); err != nil {
					t.Fatal(err)
				}
				cut := powercut.At(t, s.Dir, n)
				err := c.do(s)
				cut.On()
				if err == nil {
					if got := versionsOf(t, s); n < 6 || !slices.Equal(got, c.want) {
						t.Errorf("%q left %v, want %v", cut.Changes, got, c.want)
					}
					return
				}
				switch got := versionsOf(t, s); {
				case slices.Equal(got, c.want):
				case !slices.Equal(got, []string{older}):
					t.Errorf("cut at %q: versions %v", cut.Changes, got)
				default:
					if err := load(t, Store{Dir: t.TempDir()}, s.Dir, older); err != nil {
						t.Errorf("cut at %q, the older bundle: %v", cut.Changes, err)
					}
					if err := c.do(s); err != nil {
						t.Errorf("cut at %q, then again: %v", cut.Changes, err)
					}
				}
			}
		})
	}
}

// Commands at the same time wait for each other.
func TestStoreAtOnce(t *testing.T) {
	signer, keys := newKeys(t)
	dir := layoutOf(t, signer)
	s := Store{Dir: t.TempDir()}
	var all sync.WaitGroup
	for range 4 {
		for _, version := range []string{older, newer} {
			all.Go(func() {
				if err := load(t, s, dir, version); err != nil {
					t.Error(err)
				}
			})
		}
	}
	all.Wait()
	if got := versionsOf(t, s); !slices.Equal(got, []string{older, newer}) || !slices.Equal(blobsOf(t, s.Dir), blobsOf(t, dir)) {
		t.Errorf("versions %v, blobs %v", got, blobsOf(t, s.Dir))
	}
	if _, err := bundle(s.Dir, keys); err != nil {
		t.Error(err)
	}
}

// archiveOf packs files as the archive of a release has them.
func archiveOf(t *testing.T, files map[string]string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "host-bundle.tar")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(f)
	for name, content := range files {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestExtract(t *testing.T) {
	signer, _ := newKeys(t)
	dir := layoutOf(t, signer)
	files := map[string]string{}
	for _, name := range append(blobsOf(t, dir), "index.json", "oci-layout") {
		if !strings.Contains(name, ".json") && name != "oci-layout" {
			name = "blobs/sha256/" + name
		}
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(data)
	}
	out, s := t.TempDir(), Store{Dir: t.TempDir()}
	if err := Extract(archiveOf(t, files), out); err != nil {
		t.Fatal(err)
	}
	if err := load(t, s, out); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"../evil", "/etc/passwd", "blobs/sha256/../../../evil", "blobs/sha256/short", "other"} {
		out := filepath.Join(t.TempDir(), "out")
		var own *Error
		if err := Extract(archiveOf(t, map[string]string{name: "x"}), out); !errors.As(err, &own) || own.Reason != ReasonCorrupt {
			t.Errorf("%s: %v", name, err)
		}
	}
	cut := archiveOf(t, files)
	// A byte of the first file is there, whichever that is.
	if err := os.Truncate(cut, 513); err != nil {
		t.Fatal(err)
	}
	if err := Extract(cut, t.TempDir()); err == nil {
		t.Error("no error for an archive that is cut off")
	}
}

// sparseArchive has a file with one byte, which says that it has so many: the rest are holes.
func sparseArchive(t *testing.T, name string, size int64) string {
	t.Helper()
	block := func(name string, kind byte, size int) []byte {
		b := make([]byte, 512)
		copy(b, name)
		copy(b[100:], fmt.Sprintf("%07o\x00%07o\x00%07o\x00%011o\x00%011o\x00", 0o644, 0, 0, size, 0))
		copy(b[148:], "        ")
		b[156] = kind
		copy(b[257:], "ustar\x0000")
		sum := 0
		for _, c := range b {
			sum += int(c)
		}
		copy(b[148:], fmt.Sprintf("%06o\x00 ", sum))
		return b
	}
	padded := func(content string) []byte {
		return append([]byte(content), make([]byte, (512-len(content)%512)%512)...)
	}
	records := ""
	for _, record := range []string{"GNU.sparse.size=" + strconv.FormatInt(size, 10), "GNU.sparse.numblocks=1", "GNU.sparse.map=0,1", "GNU.sparse.name=" + name} {
		n := len(record) + 3
		for len(strconv.Itoa(n))+len(record)+2 != n {
			n++
		}
		records += fmt.Sprintf("%d %s\n", n, record)
	}
	path := filepath.Join(t.TempDir(), "sparse.tar")
	archive := bytes.Join([][]byte{block("header", 'x', len(records)), padded(records), block("file", '0', 1), padded("x"), make([]byte, 1024)}, nil)
	if err := os.WriteFile(path, archive, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// An unsigned archive writes no more bytes than it has.
func TestSparseArchiveFillsNoDisk(t *testing.T) {
	out := t.TempDir()
	name := "blobs/sha256/" + strings.Repeat("0", 64)
	var own *Error
	if err := Extract(sparseArchive(t, name, 1<<26), out); !errors.As(err, &own) || own.Reason != ReasonCorrupt {
		t.Errorf("the error is %v", err)
	}
	if info, err := os.Stat(filepath.Join(out, name)); err == nil {
		t.Errorf("%d bytes were written", info.Size())
	}
	if err := Extract(sparseArchive(t, name, 512), t.TempDir()); err != nil {
		t.Errorf("a file that fits: %v", err)
	}
}

// Who loads a bundle learns who built it; bundles that do not tell are of the own build.
func TestOriginOfABundle(t *testing.T) {
	for want, c := range map[Origin]Contents{
		OriginUpstream: {KubernetesVersion: "v1.36.5", Origin: OriginUpstream}, OriginOwnBuild: {KubernetesVersion: "v1.36.3"}, "": {AgentVersion: "v0.9.0"},
	} {
		if got := c.BuiltBy(); got != want {
			t.Errorf("%+v: %q, want %q", c, got, want)
		}
	}
	if err := (Contents{KubernetesVersion: "v1.36.5", Origin: "x"}).Validate(); err == nil {
		t.Error("an origin that no object can have is taken")
	}
}
