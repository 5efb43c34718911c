package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// testRecipes are two images that share their lowest layer.
var testRecipes = []recipe{
	{ref: "slipway.dev/one:v1", entrypoint: []string{"/one"}, layers: []string{"base", "one"}},
	{ref: "slipway.dev/two:v1", entrypoint: []string{"/two"}, user: "65532", layers: []string{"base", "two"}},
}

func testArchive(t *testing.T) []byte {
	t.Helper()
	layers := map[string]*layer{
		"base": mustLayer(t, file("etc/passwd", "root:x:0:0:::\n")),
		"one":  mustLayer(t, file("one", "1")),
		"two":  mustLayer(t, file("two", "2")),
	}
	index, err := buildIndex(testRecipes, layers)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := writeArchive(&out, index); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// unpack returns the archive's files and fails on a name that comes twice.
func unpack(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for tr := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := files[h.Name]; twice {
			t.Errorf("%s is in the archive twice", h.Name)
		}
		if files[h.Name], err = io.ReadAll(tr); err != nil {
			t.Fatal(err)
		}
	}
}

func TestArchiveIsDeterministic(t *testing.T) {
	if !bytes.Equal(testArchive(t), testArchive(t)) {
		t.Error("the same recipes gave two different archives")
	}
}

func TestArchiveBlobsHaveTheirDigests(t *testing.T) {
	blobs := 0
	for name, content := range unpack(t, testArchive(t)) {
		if !strings.HasPrefix(name, "blobs/sha256/") {
			continue
		}
		blobs++
		sum := sha256.Sum256(content)
		if got := hex.EncodeToString(sum[:]); got != path.Base(name) {
			t.Errorf("%s has digest %s", name, got)
		}
	}
	// Two manifests, two configurations, three layers of which one is shared.
	if blobs != 7 {
		t.Errorf("got %d blobs, want 7", blobs)
	}
}

func TestArchiveNamesItsImages(t *testing.T) {
	files := unpack(t, testArchive(t))
	var index v1.IndexManifest
	if err := json.Unmarshal(files["index.json"], &index); err != nil {
		t.Fatal(err)
	}
	if len(index.Manifests) != len(testRecipes) {
		t.Fatalf("got %d manifests, want %d", len(index.Manifests), len(testRecipes))
	}
	for i, descriptor := range index.Manifests {
		if got := descriptor.Annotations[containerdName]; got != testRecipes[i].ref {
			t.Errorf("manifest %d is named %q, want %q", i, got, testRecipes[i].ref)
		}
		var m v1.Manifest
		if err := json.Unmarshal(files[blobPath(descriptor.Digest)], &m); err != nil {
			t.Fatal(err)
		}
		var config v1.ConfigFile
		if err := json.Unmarshal(files[blobPath(m.Config.Digest)], &config); err != nil {
			t.Fatal(err)
		}
		if config.Config.User != testRecipes[i].user || config.Config.Entrypoint[0] != testRecipes[i].entrypoint[0] {
			t.Errorf("%s has configuration %+v", testRecipes[i].ref, config.Config)
		}
	}
}

// Nobody takes an image of this build for upstream's, whatever its name is.
func TestImagesSayWhoBuiltThem(t *testing.T) {
	img, err := buildImage(testRecipes[0], map[string]*layer{"base": mustLayer(t, file("etc/passwd", "")), "one": mustLayer(t, file("one", "1"))})
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil || config.Config.Labels["dev.slipway.origin"] != "OwnBuild" {
		t.Errorf("%v: %+v", err, config)
	}
}

func TestBuildIndexNamesAnUnknownLayer(t *testing.T) {
	_, err := buildIndex([]recipe{{ref: "slipway.dev/x:v1", layers: []string{"gone"}}}, nil)
	if err == nil || !strings.Contains(err.Error(), "gone") {
		t.Errorf("got %v, want an error that names the layer", err)
	}
}

func TestReplaceFileKeepsTheOldContentOnFailure(t *testing.T) {
	target := filepath.Join(t.TempDir(), "dir", "f")
	write := func(content string, err error) error {
		return replaceFile(target, 0o644, func(w io.Writer) error {
			_, writeErr := io.WriteString(w, content)
			return errors.Join(writeErr, err)
		})
	}
	if err := write("old", nil); err != nil {
		t.Fatal(err)
	}
	full := errors.New("disk full")
	if err := write("ne", full); !errors.Is(err, full) {
		t.Errorf("got %v, want %v", err, full)
	}
	if got, _ := os.ReadFile(target); string(got) != "old" {
		t.Errorf("got %q, want the old content", got)
	}
	if left, _ := os.ReadDir(filepath.Dir(target)); len(left) != 1 {
		t.Errorf("%d files are left, want 1", len(left))
	}
}
