package upstream

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

var request = Request{Kubernetes: "v1.36.5", Containerd: DefaultContainerd, Runc: DefaultRunc, CNIPlugins: DefaultCNIPlugins, Architectures: []string{"amd64", "arm64"}}

// release is a server with upstream's layout, and its registry.
type release struct {
	*httptest.Server
	mu sync.Mutex
	// files by path. An empty one is not there.
	files map[string][]byte
	types map[string]string
	// serve answers instead of the files. May be nil.
	serve func(w http.ResponseWriter, r *http.Request) bool
	got   []string
}

func newRelease(t *testing.T) *release {
	r := &release{files: map[string][]byte{}, types: map[string]string{}}
	r.Server = httptest.NewServer(http.HandlerFunc(r.handle))
	t.Cleanup(r.Close)
	for _, w := range r.sources().plan(request) {
		p := strings.TrimPrefix(w.url, r.URL)
		var data []byte
		switch w.component {
		case componentContainerd:
			data = archive(t, "bin/", w.architecture, "containerd", "containerd-shim-runc-v2", "containerd-stress", "ctr")
		case componentCNI:
			data = archive(t, "./", w.architecture, "bridge", "host-local", "loopback", "portmap", "ptp")
		default:
			data = program(w.architecture, p)
		}
		r.put(w, data)
	}
	for _, name := range []string{"kube-apiserver:v1.36.5", "etcd:3.6.8-0", "coredns/coredns:v1.14.1", "pause:3.10.2"} {
		r.image(t, name, "amd64", "arm64")
	}
	return r
}

// put publishes a file with its checksum and signature.
func (r *release) put(w wanted, data []byte) {
	p := strings.TrimPrefix(w.url, r.URL)
	sums := strings.TrimPrefix(w.checksum, r.URL)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.files[p] = data
	line := w.algorithm.FromBytes(data).Encoded()
	if w.component != componentKubernetes {
		line += "  " + path.Base(p)
	}
	r.files[sums] = append(r.files[sums], line+"\n"...)
	if w.component == componentKubernetes {
		r.files[sums] = []byte(line)
		r.files[p+".sig"], r.files[p+".cert"] = []byte("of "+digest.FromBytes(data).String()), []byte("certificate")
	}
}

// image publishes an image as a registry does.
func (r *release) image(t *testing.T, name string, architectures ...string) {
	repository, tag, _ := strings.Cut(name, ":")
	document := func(reference, mediaType string, content any) ocispec.Descriptor {
		data, err := json.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		d := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
		for _, as := range []string{reference, d.Digest.String()} {
			at := "/v2/" + repository + "/manifests/" + as
			r.files[at], r.types[at] = data, mediaType
		}
		return d
	}
	blob := func(mediaType string, data []byte) ocispec.Descriptor {
		d := ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(data), Size: int64(len(data))}
		r.files["/v2/"+repository+"/blobs/"+d.Digest.String()] = data
		return d
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	index := ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex}
	for _, a := range architectures {
		config, err := json.Marshal(ocispec.Image{Platform: ocispec.Platform{OS: "linux", Architecture: a}, Author: name})
		if err != nil {
			t.Fatal(err)
		}
		m := ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest,
			Config: blob(ocispec.MediaTypeImageConfig, config),
			Layers: []ocispec.Descriptor{blob(ocispec.MediaTypeImageLayerGzip, []byte("base of "+a)), blob(ocispec.MediaTypeImageLayerGzip, []byte(name+" of "+a))}}
		d := document("of-"+a, m.MediaType, m)
		d.Platform = &ocispec.Platform{OS: "linux", Architecture: a}
		index.Manifests = append(index.Manifests, d)
	}
	document(tag, index.MediaType, index)
}

func (r *release) handle(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if q.Method == http.MethodGet {
		r.got = append(r.got, q.URL.Path)
	}
	if r.serve != nil && r.serve(w, q) {
		return
	}
	// a mirror has the host before the path
	p := strings.TrimPrefix(q.URL.Path, "/mirror/"+r.host())
	data := r.files[p]
	if data == nil {
		http.NotFound(w, q)
		return
	}
	if mediaType := r.types[p]; mediaType != "" {
		w.Header().Set("Content-Type", mediaType)
		w.Header().Set("Docker-Content-Digest", digest.FromBytes(data).String())
	}
	http.ServeContent(w, q, "", time.Time{}, bytes.NewReader(data))
}

func (r *release) host() string { return strings.TrimPrefix(r.URL, "http://") }

func (r *release) sources() Sources {
	return Sources{Kubernetes: r.URL + "/release", Containerd: r.URL + "/containerd", Runc: r.URL + "/runc", CNIPlugins: r.URL + "/cni", Signer: Upstream.Signer}
}

// images are the names that kubeadm says.
func (r *release) images() []string {
	var all []string
	for _, name := range []string{"kube-apiserver:v1.36.5", "etcd:3.6.8-0", "coredns/coredns:v1.14.1", "pause:3.10.2"} {
		all = append(all, r.host()+"/"+name)
	}
	return all
}

func (r *release) resolver(t *testing.T) *Resolver {
	return &Resolver{Sources: r.sources(), Fetcher: &Fetcher{Cache: t.TempDir()}, Machine: "amd64",
		Verify: func(_ context.Context, s Signature) error {
			if string(s.Signature) != "of "+s.SHA256.String() || string(s.Certificate) != "certificate" {
				return errors.New("it is for something else")
			}
			return nil
		},
		ListImages: func(_ context.Context, kubeadm, version string) ([]string, error) {
			if version != "v1.36.5" {
				return nil, fmt.Errorf("asked %s for %s", kubeadm, version)
			}
			return r.images(), checkMachine(kubeadm, "amd64")
		}}
}

// program is an ELF file without content that could run.
func program(architecture, content string) []byte {
	header := [64]byte{0: 0x7f, 1: 'E', 2: 'L', 3: 'F', 4: 2, 5: 1, 6: 1}
	binary.LittleEndian.PutUint16(header[16:], 2)
	binary.LittleEndian.PutUint16(header[18:], uint16(machines[architecture]))
	binary.LittleEndian.PutUint32(header[20:], 1)
	binary.LittleEndian.PutUint16(header[52:], 64)
	return append(header[:], content...)
}

func archive(t *testing.T, folder, architecture string, names ...string) []byte {
	var data bytes.Buffer
	compressed := gzip.NewWriter(&data)
	to := tar.NewWriter(compressed)
	write := func(name string, mode int64, content []byte) {
		if err := to.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(content)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := to.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range names {
		write(folder+name, 0o755, program(architecture, name))
	}
	write(folder+"LICENSE", 0o644, []byte("Apache"))
	if err := errors.Join(to.Close(), compressed.Close()); err != nil {
		t.Fatal(err)
	}
	return data.Bytes()
}
