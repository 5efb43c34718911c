package software_test

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/mod/sumdb/note"

	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
	"github.com/slipway-dev/slipway/internal/agent/software"
	"github.com/slipway-dev/slipway/internal/hostbundle"
	"github.com/slipway-dev/slipway/internal/hostbundle/registry"
)

// unsignedMirror is a registry, or who stands between, without any key that a host trusts.
type unsignedMirror struct {
	documents map[string][]byte
	// blobs by digest are this number in front of zeros.
	blobs     map[string]uint64
	referrers []ocispec.Descriptor
	sent      atomic.Int64
}

const (
	unsignedBlob  = 2 << 20
	unsignedBlobs = 48
)

func (m *unsignedMirror) content(n uint64) []byte {
	return binary.BigEndian.AppendUint64(nil, n+1)[:8:8]
}

func (m *unsignedMirror) blob(n uint64) ocispec.Descriptor {
	data := make([]byte, unsignedBlob)
	copy(data, m.content(n))
	d := digest.FromBytes(data)
	m.blobs[d.String()] = n
	return ocispec.Descriptor{MediaType: "application/octet-stream", Digest: d, Size: unsignedBlob}
}

func (m *unsignedMirror) document(t *testing.T, mediaType string, content any) ocispec.Descriptor {
	t.Helper()
	data, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	d := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
	m.documents[d.Digest.String()] = data
	return d
}

func (m *unsignedMirror) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	switch {
	case strings.Contains(r.URL.Path, "/manifests/"):
		data, ok := m.documents[at]
		if !ok {
			http.NotFound(w, r)
			return
		}
		mediaType := ocispec.MediaTypeImageManifest
		if strings.Contains(string(data), `"manifests"`) {
			mediaType = ocispec.MediaTypeImageIndex
		}
		w.Header().Set("Content-Type", mediaType)
		w.Header().Set("Docker-Content-Digest", digest.FromBytes(data).String())
		w.Header().Set("Content-Length", strconv.Itoa(len(data)))
		if r.Method == http.MethodHead {
			return
		}
		m.sent.Add(int64(len(data)))
		_, _ = w.Write(data)
	case strings.Contains(r.URL.Path, "/referrers/"):
		w.Header().Set("Content-Type", ocispec.MediaTypeImageIndex)
		_ = json.NewEncoder(w).Encode(ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: m.referrers})
	case strings.Contains(r.URL.Path, "/blobs/"):
		n, ok := m.blobs[at]
		if !ok {
			http.NotFound(w, r)
			return
		}
		data := make([]byte, unsignedBlob)
		copy(data, m.content(n))
		m.sent.Add(unsignedBlob)
		_, _ = w.Write(data)
	default:
		http.NotFound(w, r)
	}
}

// Before a signature by a key of the host holds, a source of bundles makes a host take some
// documents and no more: what describes a bundle has some hundred KiB. Whoever serves bundles, or
// stands between, would fill the disk of all hosts, where their journals are.
func TestNothingUnsignedFillsADisk(t *testing.T) {
	const version, most = "v1.36.3", hostbundle.MaxDescription + 1<<20
	_, public, err := note.GenerateKey(rand.Reader, "operator")
	if err != nil {
		t.Fatal(err)
	}
	keys, err := hostbundle.ParsePublicKeys([]byte(public))
	if err != nil {
		t.Fatal(err)
	}
	empty := ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest}
	for name, fill := range map[string]func(t *testing.T, m *unsignedMirror, index *ocispec.Index){
		"many manifests of one architecture": func(t *testing.T, m *unsignedMirror, index *ocispec.Index) {
			t.Helper()
			for n := range uint64(unsignedBlobs) {
				manifest := empty
				manifest.Config = m.blob(n)
				d := m.document(t, ocispec.MediaTypeImageManifest, manifest)
				d.Platform = &ocispec.Platform{OS: "linux", Architecture: runtime.GOARCH}
				index.Manifests = append(index.Manifests, d)
			}
		},
		"a signature of many layers": func(t *testing.T, m *unsignedMirror, _ *ocispec.Index) {
			t.Helper()
			signature := empty
			signature.ArtifactType, signature.Config = hostbundle.SignatureType, m.blob(0)
			for n := range uint64(unsignedBlobs) {
				signature.Layers = append(signature.Layers, m.blob(n))
			}
			d := m.document(t, ocispec.MediaTypeImageManifest, signature)
			d.ArtifactType = hostbundle.SignatureType
			m.referrers = append(m.referrers, d)
		},
		"many signatures": func(t *testing.T, m *unsignedMirror, index *ocispec.Index) {
			t.Helper()
			subject := m.document(t, ocispec.MediaTypeImageIndex, *index)
			for n := range uint64(unsignedBlobs) {
				signature := empty
				signature.ArtifactType, signature.Subject, signature.Layers = hostbundle.SignatureType, &subject, []ocispec.Descriptor{m.blob(n)}
				d := m.document(t, ocispec.MediaTypeImageManifest, signature)
				d.ArtifactType = hostbundle.SignatureType
				m.referrers = append(m.referrers, d)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := &unsignedMirror{documents: map[string][]byte{}, blobs: map[string]uint64{}}
			index := ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex, Manifests: []ocispec.Descriptor{}}
			fill(t, m, &index)
			m.documents[version] = m.documents[m.document(t, ocispec.MediaTypeImageIndex, index).Digest.String()]
			server := httptest.NewServer(m)
			defer server.Close()
			source, err := registry.New(registry.Options{Address: registry.Scheme + strings.TrimPrefix(server.URL, "http://") + "/host-bundles", Hasty: true})
			if err != nil {
				t.Fatal(err)
			}
			root := hostfs.Root(t.TempDir())
			for _, dir := range []string{"/opt", "/usr/local/bin", "/var/lib/dpkg", "/etc/systemd/system"} {
				if err := os.MkdirAll(root.Path(dir), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			_, err = (&software.Host{Root: root}).Fetch(t.Context(), software.Wanted{Version: version}, keys, source)
			if err == nil {
				t.Error("a bundle that nobody signed was installed")
			}
			if sent := m.sent.Load(); sent > most {
				t.Errorf("the host took %d MiB that nobody signed, and would have taken more; want at most %d (%v)", sent>>20, most>>20, err)
			}
			staging := hostbundle.Staging{Dir: filepath.Join(t.TempDir(), "fetched"), Keys: keys}
			if err := source.Stage(t.Context(), staging, version, runtime.GOARCH); err == nil {
				t.Error("a description that nobody signed is taken")
			}
			if _, err := os.Stat(staging.Dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("something that nobody signed is on the disk: %v", err)
			}
		})
	}
}
