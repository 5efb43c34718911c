package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/opencontainers/go-digest"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/testing/ca"
	"github.com/sigstore/sigstore-go/pkg/tlog"

	"github.com/slipway-dev/slipway/internal/hostbundle"
	"github.com/slipway-dev/slipway/internal/hostbundle/upstream"

	"github.com/slipway-dev/slipway/cmd/slipway-bundle/sigstore"
)

const kubernetes = "v1.36.5"

// release serves what upstream publishes: programs, a registry, a transparency log.
type release struct {
	*httptest.Server
	signer *ca.VirtualSigstore
	files  map[string][]byte
	// log has the entries by the digest of the file.
	log map[string][]byte
}

func newRelease(t *testing.T) *release {
	t.Helper()
	signer, err := ca.NewVirtualSigstore()
	if err != nil {
		t.Fatal(err)
	}
	r := &release{signer: signer, files: map[string][]byte{}, log: map[string][]byte{}}
	images := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		data, there := r.files[q.URL.Path]
		switch {
		case strings.HasPrefix(q.URL.Path, "/v2/"):
			images.ServeHTTP(w, q)
		case strings.HasPrefix(q.URL.Path, "/api/"):
			r.rekor(w, q)
		case there:
			w.Header().Set("Content-Length", fmt.Sprint(len(data)))
			_, _ = w.Write(data)
		default:
			http.NotFound(w, q)
		}
	}))
	t.Cleanup(r.Close)
	former := sources
	t.Cleanup(func() { sources = former })
	sources = upstream.Sources{Kubernetes: r.URL + "/release", Containerd: r.URL + "/containerd", Runc: r.URL + "/runc", CNIPlugins: r.URL + "/cni", Rekor: r.URL, Signer: former.Signer}
	for _, architecture := range []string{"amd64", "arm64"} {
		r.programs(t, architecture)
	}
	for _, image := range []string{"kube-apiserver:" + kubernetes, "pause:3.10.2", "flannel-io/flannel:v0.28.4"} {
		r.image(t, image)
	}
	return r
}

func (r *release) programs(t *testing.T, architecture string) {
	t.Helper()
	for _, program := range []string{"kubeadm", "kubectl", "kubelet"} {
		data := elf(architecture, program)
		if program == "kubeadm" && architecture == runtime.GOARCH {
			data = r.kubeadm(t)
		}
		r.sign(t, architecture, program, data, sources.Signer)
	}
	sum := func(path, suffix string, algorithm digest.Algorithm, data []byte) {
		r.files[path] = data
		r.files[suffix] = append(r.files[suffix], algorithm.FromBytes(data).Encoded()+"  "+filepath.Base(path)+"\n"...)
	}
	containerd := "/containerd/" + upstream.DefaultContainerd + "/containerd-" + upstream.DefaultContainerd[1:] + "-linux-" + architecture + ".tar.gz"
	sum(containerd, containerd+".sha256sum", digest.SHA256, archive(t, architecture, "containerd", "containerd-shim-runc-v2", "ctr"))
	sum("/runc/"+upstream.DefaultRunc+"/runc."+architecture, "/runc/"+upstream.DefaultRunc+"/runc.sha256sum", digest.SHA256, elf(architecture, "runc"))
	plugins := "/cni/" + upstream.DefaultCNIPlugins + "/cni-plugins-linux-" + architecture + "-" + upstream.DefaultCNIPlugins + ".tgz"
	sum(plugins, plugins+".sha512", digest.SHA512, archive(t, architecture, "bridge", "loopback"))
}

// sign publishes a program with its signature by somebody.
func (r *release) sign(t *testing.T, architecture, program string, data []byte, by upstream.Signer) {
	t.Helper()
	p := "/release/" + kubernetes + "/bin/linux/" + architecture + "/" + program
	s := r.signature(t, data, by)
	r.files[p], r.files[p+".sha512"] = data, []byte(digest.SHA512.FromBytes(data).Encoded())
	r.files[p+".sig"], r.files[p+".cert"] = s.Signature, s.Certificate
}

// signature signs as cosign does, and adds the entry to the log.
func (r *release) signature(t *testing.T, data []byte, by upstream.Signer) upstream.Signature {
	t.Helper()
	entity, err := r.signer.Sign(by.Identity, by.Issuer, data)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := entity.SignatureContent()
	if err != nil {
		t.Fatal(err)
	}
	verification, err := entity.VerificationContent()
	if err != nil {
		t.Fatal(err)
	}
	entries, err := entity.TlogEntries()
	if err != nil {
		t.Fatal(err)
	}
	sum := digest.FromBytes(data)
	e := entries[0].TransparencyLogEntry()
	promise, err := r.signer.RekorSignPayload(tlog.RekorPayload{Body: base64.StdEncoding.EncodeToString(e.GetCanonicalizedBody()),
		IntegratedTime: e.GetIntegratedTime(), LogIndex: e.GetLogIndex(), LogID: hex.EncodeToString(e.GetLogId().GetKeyId())})
	if err != nil {
		t.Fatal(err)
	}
	entry, err := json.Marshal(map[string]any{"entry": map[string]any{
		"body": e.GetCanonicalizedBody(), "integratedTime": e.GetIntegratedTime(), "logID": hex.EncodeToString(e.GetLogId().GetKeyId()), "logIndex": e.GetLogIndex(),
		"verification": map[string]any{"signedEntryTimestamp": promise},
	}})
	if err != nil {
		t.Fatal(err)
	}
	r.log[sum.String()] = entry
	return upstream.Signature{SHA256: sum, Signature: []byte(base64.StdEncoding.EncodeToString(signed.Signature())), Certificate: encoded(verification.Certificate())}
}

// encoded is a certificate as cosign writes it.
func encoded(c *x509.Certificate) []byte {
	return []byte(base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})))
}

// rekor answers as the API of the log does.
func (r *release) rekor(w http.ResponseWriter, q *http.Request) {
	if q.Method == http.MethodPost {
		var query struct{ Hash string }
		_ = json.NewDecoder(q.Body).Decode(&query)
		ids := []string{}
		if r.log[query.Hash] != nil {
			ids = append(ids, query.Hash)
		}
		_ = json.NewEncoder(w).Encode(ids)
		return
	}
	_, _ = w.Write(r.log[strings.TrimPrefix(q.URL.Path, "/api/v1/log/entries/")])
}

func (r *release) image(t *testing.T, image string) {
	t.Helper()
	var index v1.ImageIndex = empty.Index
	for _, architecture := range []string{"amd64", "arm64"} {
		img, err := random.Image(100, 2)
		if err != nil {
			t.Fatal(err)
		}
		config, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		config.OS, config.Architecture = "linux", architecture
		if img, err = mutate.ConfigFile(img, config); err != nil {
			t.Fatal(err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: architecture}}})
	}
	ref, err := name.ParseReference(r.host() + "/" + image)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.WriteIndex(ref, index); err != nil {
		t.Fatal(err)
	}
}

func (r *release) host() string { return strings.TrimPrefix(r.URL, "http://") }

// kubeadm is a program that runs.
func (r *release) kubeadm(t *testing.T) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeadm")
	build := exec.Command("go", "build", "-ldflags", "-s -w -X main.registry="+r.host(), "-o", file, "./testdata/kubeadm")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// trustedRoot is a file with the trust root of the release.
func (r *release) trustedRoot(t *testing.T) string {
	t.Helper()
	logs := map[string]*root.TransparencyLog{}
	for id, l := range r.signer.RekorLogs() {
		var err error
		if l.ID, err = hex.DecodeString(id); err != nil {
			t.Fatal(err)
		}
		logs[id] = l
	}
	trusted, err := root.NewTrustedRoot(root.TrustedRootMediaType01, r.signer.FulcioCertificateAuthorities(), nil, nil, logs)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(trusted)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "trusted-root.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// elf is a program's header for an architecture, and content.
func elf(architecture, content string) []byte {
	machine := map[string]uint16{"amd64": 62, "arm64": 183}[architecture]
	header := [64]byte{0: 0x7f, 1: 'E', 2: 'L', 3: 'F', 4: 2, 5: 1, 6: 1}
	binary.LittleEndian.PutUint16(header[16:], 2)
	binary.LittleEndian.PutUint16(header[18:], machine)
	binary.LittleEndian.PutUint32(header[20:], 1)
	binary.LittleEndian.PutUint16(header[52:], 64)
	return append(header[:], content...)
}

func archive(t *testing.T, architecture string, names ...string) []byte {
	t.Helper()
	var data bytes.Buffer
	compressed := gzip.NewWriter(&data)
	to := tar.NewWriter(compressed)
	for _, program := range names {
		content := elf(architecture, program)
		if err := to.WriteHeader(&tar.Header{Name: "bin/" + program, Mode: 0o755, Size: int64(len(content)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := to.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(to.Close(), compressed.Close()); err != nil {
		t.Fatal(err)
	}
	return data.Bytes()
}

func (r *release) lock(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := lock(t.Context(), append([]string{kubernetes, "--arch", "amd64,arm64", "--cache", t.TempDir(), "--trusted-root", r.trustedRoot(t)}, args...), &out)
	return out.String(), err
}

// A host bundle of upstream's binaries is made in two steps, as users do: a lock, then a bundle
// of what it names, here of a directory that another machine filled.
func TestLockAndBuild(t *testing.T) {
	r := newRelease(t)
	flannel := r.host() + "/flannel-io/flannel:v0.28.4"
	l, err := r.lock(t, "--image", flannel)
	if err != nil {
		t.Fatal(err)
	}
	if signed, unsigned := strings.Count(l, "verified: Signature"), strings.Count(l, "verified: Checksum"); signed != 6 || unsigned != 12 ||
		!strings.Contains(l, "krel-staging@k8s-releng-prod.iam.gserviceaccount.com of https://accounts.google.com") || !strings.Contains(l, "name: "+flannel) {
		t.Errorf("%d are signed, %d not:\n%s", signed, unsigned, l)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "v1.36.5.lock.yaml")
	if err := os.WriteFile(file, []byte(l), 0o600); err != nil {
		t.Fatal(err)
	}
	from := r.fill(t, file)
	r.Close()
	key, public := filepath.Join(dir, "key"), filepath.Join(dir, "key.pub")
	if err := keygen("test", key, public); err != nil {
		t.Fatal(err)
	}
	var first map[string]string
	for _, output := range []string{filepath.Join(dir, "first"), filepath.Join(dir, "second")} {
		if err := build(t.Context(), []string{"--lock", file, "--from", from, "--cache", t.TempDir(), "--private-key", key, "--output", output}); err != nil {
			t.Fatal(err)
		}
		all := tree(t, output)
		if first != nil && fmt.Sprint(first) != fmt.Sprint(all) {
			t.Error("two builds of one lock differ")
		}
		first = all
	}
	data, err := os.ReadFile(public)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := hostbundle.ParsePublicKeys(data)
	if err != nil {
		t.Fatal(err)
	}
	d, err := hostbundle.OpenDirectory(filepath.Join(dir, "second"))
	if err != nil {
		t.Fatal(err)
	}
	for _, architecture := range []string{"amd64", "arm64"} {
		b, err := d.Bundle(kubernetes, architecture, keys)
		if err != nil || b.Origin != hostbundle.OriginUpstream {
			t.Fatalf("%v: %+v", err, b)
		}
		for _, c := range b.Components {
			if err := b.Unpack(c, func(_ hostbundle.File, content io.Reader) error { _, err := io.Copy(io.Discard, content); return err }); err != nil {
				t.Error(err)
			}
		}
	}

	// a build that fails leaves nothing that looks like a bundle
	if err := os.Remove(filepath.Join(from, r.host(), "release", kubernetes, "bin/linux/arm64/kubelet")); err != nil {
		t.Fatal(err)
	}
	output := filepath.Join(dir, "third")
	err = build(t.Context(), []string{"--lock", file, "--from", from, "--cache", t.TempDir(), "--private-key", key, "--output", output})
	if err == nil || !strings.Contains(err.Error(), "arm64/kubelet is not in the directory") || len(tree(t, output)) > 0 {
		t.Errorf("err = %v; %v", err, tree(t, output))
	}
}

// fill downloads what a lock names as its --urls say.
func (r *release) fill(t *testing.T, file string) string {
	t.Helper()
	var urls bytes.Buffer
	if err := lock(t.Context(), []string{"--urls", file}, &urls); err != nil {
		t.Fatal(err)
	}
	from := t.TempDir()
	for line := range strings.Lines(urls.String()) {
		url, path, _ := strings.Cut(strings.TrimSpace(line), " ")
		response, err := http.Get("http://" + url[strings.Index(url, "//")+2:])
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(response.Body)
		if err := errors.Join(err, response.Body.Close(), os.MkdirAll(filepath.Dir(filepath.Join(from, path)), 0o700)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(from, path), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return from
}

func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		all[strings.TrimPrefix(path, dir)] = digest.FromBytes(data).String()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Only the release process of Kubernetes may have signed its programs.
func TestWrongSigner(t *testing.T) {
	r := newRelease(t)
	data := []byte("kubelet")
	genuine := r.signature(t, data, sources.Signer)
	trusted, err := sigstore.Root(r.trustedRoot(t))
	if err != nil {
		t.Fatal(err)
	}
	entry := r.log[genuine.SHA256.String()]
	for name, c := range map[string]struct {
		change func(s *upstream.Signature)
		want   string
	}{
		"genuine": {func(*upstream.Signature) {}, ""},
		"another identity": {func(s *upstream.Signature) {
			*s = r.signature(t, data, upstream.Signer{Identity: "somebody@example.com", Issuer: sources.Signer.Issuer})
		}, "somebody@example.com"},
		"another issuer": {func(s *upstream.Signature) {
			*s = r.signature(t, data, upstream.Signer{Identity: sources.Signer.Identity, Issuer: "https://example.com"})
		}, "https://example.com"},
		"another Sigstore": {func(s *upstream.Signature) {
			former := r.signer
			defer func() { r.signer = former }()
			if r.signer, err = ca.NewVirtualSigstore(); err != nil {
				t.Fatal(err)
			}
			*s = r.signature(t, data, sources.Signer)
		}, "not enough verified log entries"},
		"another file": {func(s *upstream.Signature) {
			s.SHA256 = digest.FromString("changed")
			r.log[s.SHA256.String()] = entry
		}, "does not match"},
		"the certificate of another signature": {func(s *upstream.Signature) {
			s.Certificate = r.signature(t, data, sources.Signer).Certificate
			r.log[s.SHA256.String()] = entry
		}, "certificate does not match"},
		"not in the log":      {func(s *upstream.Signature) { delete(r.log, s.SHA256.String()) }, "has no entry of this signature"},
		"no answer of a log":  {func(s *upstream.Signature) { r.log[s.SHA256.String()] = []byte("<html>") }, "entry sha256"},
		"an empty entry":      {func(s *upstream.Signature) { r.log[s.SHA256.String()] = []byte(`{"x":{}}`) }, "has no entry of this signature"},
		"no signature at all": {func(s *upstream.Signature) { s.Signature = []byte("<html>") }, "want a signature in base64"},
		"no certificate":      {func(s *upstream.Signature) { s.Certificate = []byte("<html>") }, "want a certificate in PEM form"},
	} {
		t.Run(name, func(t *testing.T) {
			r.log[genuine.SHA256.String()] = entry
			s := genuine
			c.change(&s)
			v, err := sigstore.New(trusted, sources.Signer, r.URL, send(&upstream.Fetcher{}))
			if err != nil {
				t.Fatal(err)
			}
			if err := v.Verify(t.Context(), s); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("err = %v", err)
			}
		})
	}
}

// A lock is written only if all is right, and a message says what is not.
func TestLockOfAnotherSigner(t *testing.T) {
	r := newRelease(t)
	r.sign(t, "arm64", "kubelet", elf("arm64", "kubelet"), upstream.Signer{Identity: "somebody@example.com", Issuer: sources.Signer.Issuer})
	l, err := r.lock(t)
	if err == nil || l != "" || !strings.Contains(err.Error(), "arm64/kubelet: the signature is not one of krel-staging@") || !strings.Contains(err.Error(), "do not use the file") {
		t.Errorf("%v\n%s", err, l)
	}
}

// The trust root of the public Sigstore is in the program, and it demands that certificates are logged.
func TestPublicRoot(t *testing.T) {
	trusted, err := sigstore.Root("")
	if err != nil {
		t.Fatal(err)
	}
	if len(trusted.RekorLogs()) == 0 || len(trusted.CTLogs()) == 0 || len(trusted.FulcioCertificateAuthorities()) == 0 {
		t.Errorf("%+v", trusted)
	}
}

func TestFlags(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"lock", "the version of Kubernetes: want a version such as v1.36.5"},
		{"lock v1.36", "want a version such as"},
		{"lock v1.36.5 --arch mips", `"mips" is there twice, or not one of amd64`},
		{"lock v1.36.5 --containerd v1.7.0", "want 2.x"},
		{"lock v1.36.5 --image flannel", "--image: want REGISTRY/REPOSITORY:TAG"},
		{"lock v1.36.5 --trusted-root /dev/null", "trust root /dev/null"},
		{"lock --urls /dev/null", "/dev/null: lock: want"},
		{"build --private-key k --output o", "want --lock, or --node-bundle and --images"},
		{"build --private-key k --output o --lock l --node-bundle b --images i", "want --lock, or --node-bundle and --images"},
		{"build --lock l --output o", "missing --private-key"},
		{"sign", "missing --private-key, --release, --version"},
	} {
		t.Setenv("HOME", t.TempDir())
		if err := run(context.Background(), strings.Fields(c.args)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.args, err)
		}
	}
	if !strings.Contains(help(), "(default "+upstream.DefaultContainerd+",") || strings.Contains(help(), "{{") {
		t.Error(help())
	}
}
