package upstream

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/mod/sumdb/note"

	"github.com/slipway-dev/slipway/internal/hostbundle"
	"github.com/slipway-dev/slipway/test/fakehost/bundlesource"
)

func lockOf(t *testing.T, r *Resolver) *Lock {
	t.Helper()
	l, err := r.Lock(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	data, err := l.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	read, err := ParseLock(data)
	if err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	return read
}

func pack(t *testing.T, l *Lock, f *Fetcher, signer note.Signer) string {
	t.Helper()
	dir := t.TempDir()
	w, err := hostbundle.NewWriter(dir, signer)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(Pack(t.Context(), w, l, f.Get), w.Close()); err != nil {
		t.Fatal(err)
	}
	return dir
}

// content of a directory by path.
func content(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(p)
		name, _ := filepath.Rel(dir, p)
		all[name] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A bundle of a lock is the same from upstream, a mirror and a directory, for each architecture,
// whatever the machine is that packs it.
func TestBundleOfALock(t *testing.T) {
	upstream := newRelease(t)
	l := lockOf(t, upstream.resolver(t))
	signer, keys, _ := bundlesource.NewKeys(t)
	first := pack(t, l, &Fetcher{Cache: t.TempDir(), Mirrors: []string{upstream.URL + "/mirror/"}}, signer)

	from := t.TempDir()
	contents, err := l.Contents()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range contents {
		file := filepath.Join(from, filepath.FromSlash(c.Path))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, upstream.files[strings.TrimPrefix(c.Path, upstream.host())], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	upstream.Close()
	second := pack(t, l, &Fetcher{Cache: t.TempDir(), From: from}, signer)
	if a, b := content(t, first), content(t, second); len(a) == 0 || !mapsEqual(a, b) {
		t.Error("two builds of one lock differ")
	}

	d, err := hostbundle.OpenDirectory(second)
	if err != nil {
		t.Fatal(err)
	}
	for _, architecture := range request.Architectures {
		b, err := d.Bundle("v1.36.5", architecture, keys)
		if err != nil {
			t.Fatal(err)
		}
		if b.Origin != hostbundle.OriginUpstream {
			t.Errorf("origin %q", b.Origin)
		}
		var programs, images []string
		for _, c := range b.Components {
			err := b.Unpack(c, func(f hostbundle.File, content io.Reader) error {
				data, err := io.ReadAll(content)
				if strings.HasPrefix(c.Name, "image-") {
					images = append(images, namesOf(t, data, architecture)...)
					return err
				}
				programs = append(programs, f.Path)
				if want := program(architecture, ""); !strings.HasPrefix(string(data), string(want)) {
					t.Errorf("%s/%s is not for %s", c.Name, f.Path, architecture)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		}
		slices.Sort(programs)
		want := []string{"bridge", "containerd", "containerd-shim-runc-v2", "ctr", "host-local", "kubeadm", "kubectl", "kubelet", "loopback", "portmap", "ptp", "runc"}
		if !slices.Equal(programs, want) {
			t.Errorf("programs %q, want %q", programs, want)
		}
		if !slices.Equal(images, upstream.images()) {
			t.Errorf("images %q, want %q", images, upstream.images())
		}
	}
}

// namesOf are the names of the images in an archive, whose content must be complete.
func namesOf(t *testing.T, data []byte, architecture string) []string {
	t.Helper()
	files := map[string][]byte{}
	for archive := tar.NewReader(strings.NewReader(string(data))); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[header.Name], err = io.ReadAll(archive); err != nil {
			t.Fatal(err)
		}
	}
	var index ocispec.Index
	if err := json.Unmarshal(files["index.json"], &index); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range index.Manifests {
		names = append(names, m.Annotations[containerdName])
		var manifest ocispec.Manifest
		if err := json.Unmarshal(files[blobPath(m.Digest)], &manifest); err != nil || m.Platform.Architecture != architecture {
			t.Fatalf("%v: %+v", err, m)
		}
		for _, blob := range append(manifest.Layers, manifest.Config) {
			if digest.FromBytes(files[blobPath(blob.Digest)]) != blob.Digest {
				t.Errorf("%s lacks %s", names, blob.Digest)
			}
		}
	}
	return names
}

func mapsEqual(a, b map[string]string) bool {
	for name := range a {
		if a[name] != b[name] {
			return false
		}
	}
	return len(a) == len(b)
}

// What is wrong with a release stops the lock, names the file and what to do, and is not kept.
func TestLockRefuses(t *testing.T) {
	const kubelet = "/release/v1.36.5/bin/linux/arm64/kubelet"
	for name, c := range map[string]struct {
		spoil func(r *release)
		want  string
		// kept is fine: what is wrong is not the program.
		kept bool
	}{
		"another file than the checksum says": {func(r *release) { r.files[kubelet] = program("arm64", "changed") }, kubelet + ".*digest.*nothing of it was kept", false},
		"no signature":                        {func(r *release) { delete(r.files, kubelet+".sig") }, kubelet + " has no signature.*choose", false},
		"no certificate":                      {func(r *release) { delete(r.files, kubelet+".cert") }, kubelet + " has no signature.*choose", false},
		"a signature of something else":       {func(r *release) { r.files[kubelet+".sig"] = []byte("of x") }, kubelet + ": the signature is not one of krel-staging.*do not use the file", false},
		"no checksum":                         {func(r *release) { delete(r.files, "/runc/"+DefaultRunc+"/runc.sha256sum") }, "runc.sha256sum.*does this version exist", true},
		"a page of a proxy for a checksum":    {func(r *release) { r.files[kubelet+".sha512"] = []byte("<html>log in</html>") }, "kubelet.sha512: .*page of a proxy", true},
		"another architecture's program": {func(r *release) {
			w := r.sources().program("v1.36.5", "arm64", "kubelet")
			r.put(w, program("amd64", "x"))
		}, kubelet + ": kubelet is a program for amd64, and the lock wants one for arm64", false},
		"no program": {func(r *release) {
			r.put(r.sources().program("v1.36.5", "arm64", "kubelet"), []byte("#!/bin/sh\n"))
		}, kubelet + ": kubelet is not a program of Linux", false},
		"an image of one architecture": {func(r *release) { r.image(&testing.T{}, "etcd:3.6.8-0", "amd64") }, "etcd:3.6.8-0: upstream has none for linux/arm64", true},
		"another architecture's image": {func(r *release) {
			at := "/v2/etcd/manifests/3.6.8-0"
			r.files[at] = []byte(strings.NewReplacer("amd64", "arm64", "arm64", "amd64").Replace(string(r.files[at])))
		}, "etcd:3.6.8-0 is for linux/arm64, and the lock wants linux/amd64", true},
		"no image": {func(r *release) { delete(r.files, "/v2/etcd/manifests/3.6.8-0") }, "etcd:3.6.8-0: .*not found", true},
		"a redirect to plain HTTP": {func(r *release) {
			r.serve = func(w http.ResponseWriter, q *http.Request) bool {
				if q.URL.Path == kubelet {
					http.Redirect(w, q, "http://192.0.2.1/kubelet", http.StatusFound)
				}
				return q.URL.Path == kubelet
			}
		}, kubelet + ".*http://192.0.2.1/kubelet is not https", false},
	} {
		t.Run(name, func(t *testing.T) {
			upstream := newRelease(t)
			c.spoil(upstream)
			r := upstream.resolver(t)
			_, err := r.Lock(t.Context(), request)
			if err == nil || !regexp.MustCompile(`(?s)`+c.want).MatchString(err.Error()) {
				t.Fatalf("err = %v", err)
			}
			wrong := upstream.files[kubelet]
			for file, data := range content(t, r.Cache) {
				if data == string(wrong) && !c.kept || strings.Contains(file, "unpacked") {
					t.Errorf("%s was kept", file)
				}
			}
		})
	}
}

// A build compares everything with the lock, wherever it comes from.
func TestBuildRefuses(t *testing.T) {
	upstream := newRelease(t)
	l := lockOf(t, upstream.resolver(t))
	const kubelet = "/release/v1.36.5/bin/linux/amd64/kubelet"
	upstream.files[kubelet] = program("amd64", "/release/v1.36.5/bin/linux/amd64/kubelex")
	f := &Fetcher{Cache: t.TempDir(), Mirrors: []string{upstream.URL + "/mirror"}}
	signer, _, _ := bundlesource.NewKeys(t)
	w, err := hostbundle.NewWriter(t.TempDir(), signer)
	if err != nil {
		t.Fatal(err)
	}
	err = Pack(t.Context(), w, l, f.Get)
	if err == nil || !strings.Contains(err.Error(), kubelet) || !strings.Contains(err.Error(), "write the lock again") {
		t.Errorf("err = %v", err)
	}
	for file, data := range content(t, f.Cache) {
		if data == string(upstream.files[kubelet]) {
			t.Errorf("%s was kept", file)
		}
	}
	empty := &Fetcher{Cache: t.TempDir(), From: t.TempDir()}
	if err := Pack(t.Context(), w, l, empty.Get); err == nil || !strings.Contains(err.Error(), upstream.host()+"/release/v1.36.5/bin/linux/amd64/kubeadm is not in the directory") {
		t.Errorf("err = %v", err)
	}
}

// A download that is cut continues where it was, also in another run.
func TestCutDownload(t *testing.T) {
	upstream := newRelease(t)
	l := lockOf(t, upstream.resolver(t))
	c, err := l.Files[0].content()
	if err != nil {
		t.Fatal(err)
	}
	whole := upstream.files["/release/v1.36.5/bin/linux/amd64/kubeadm"]
	cut := true
	upstream.serve = func(w http.ResponseWriter, q *http.Request) bool {
		if !cut || !strings.HasSuffix(q.URL.Path, "/kubeadm") {
			return false
		}
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write(whole[:10])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	f := &Fetcher{Cache: t.TempDir()}
	ctx, cancel := context.WithCancel(t.Context())
	f.Progress = func(_ string, have, _ int64) {
		if have == 10 {
			cancel()
		}
	}
	if _, err := f.Get(ctx, c); err == nil {
		t.Fatal("a part was taken for the whole")
	}
	if _, err := os.Stat(f.cached(c.Digest)); err == nil {
		t.Error("what was not complete has the name of what is")
	}
	cut = false
	var from int64
	f.Progress = func(_ string, have, _ int64) {
		if from == 0 {
			from = have
		}
	}
	file, err := f.Get(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil || string(data) != string(whole) || from <= 10 {
		t.Errorf("%v; the first progress was at %d of %d bytes", err, from, len(whole))
	}
}

func TestChecksums(t *testing.T) {
	sum := digest.FromString("x").Encoded()
	for list, want := range map[string]string{
		sum: sum, sum + "\n": sum, sum + "  runc.amd64\n": sum, sum + " *runc.amd64\n": sum, sum + "  ./runc.amd64": sum,
		"-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\n" + strings.Repeat("0", 64) + " *runc.arm64\n" + sum + " *runc.amd64\n-----BEGIN PGP SIGNATURE-----\n\niQ\n": sum,
		"":                     "",
		sum + "  runc.arm64\n": "",
		"x  runc.amd64":        "",
		sum + "\n" + sum:       "",
	} {
		got, err := checksumOf([]byte(list), "runc.amd64", digest.SHA256)
		if (err == nil) != (want != "") || want != "" && got.Encoded() != want {
			t.Errorf("%q: %s, %v", list, got, err)
		}
	}
}

// A lock is read only if a bundle of it would be complete.
func TestEditedLock(t *testing.T) {
	upstream := newRelease(t)
	l := lockOf(t, upstream.resolver(t))
	for name, c := range map[string]struct {
		edit func(l *Lock)
		want string
	}{
		"format":      {func(l *Lock) { l.Lock = "v2" }, "lock: want slipway.dev/host-bundle-lock/v1"},
		"version":     {func(l *Lock) { l.Kubernetes = "1.36.5" }, "kubernetes: want a version"},
		"a file less": {func(l *Lock) { l.Files = l.Files[1:] }, "amd64: the lock lacks kubeadm"},
		"no pause": {func(l *Lock) {
			l.Images = slices.DeleteFunc(l.Images, func(i Image) bool { return i.shortName() == "pause" })
		}, "lacks the image of pause"},
		"digest":       {func(l *Lock) { l.Files[0].Digest = "md5:x" }, "kubeadm: want a digest of sha256"},
		"size":         {func(l *Lock) { l.Files[0].Size = 0 }, "kubeadm: want a digest of sha256, a size"},
		"path":         {func(l *Lock) { l.Files[0].URL = "https://dl.k8s.io/../../etc/kubeadm" }, "is not an address"},
		"a manifest":   {func(l *Lock) { l.Images[0].Manifest += " " }, "the manifest is not what the digest"},
		"architecture": {func(l *Lock) { l.Architectures[0] = "mips" }, `"mips" is not one of`},
	} {
		t.Run(name, func(t *testing.T) {
			data, err := l.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			edited, err := ParseLock(data)
			if err != nil {
				t.Fatal(err)
			}
			c.edit(edited)
			if data, err = edited.Marshal(); err != nil {
				t.Fatal(err)
			}
			if _, err := ParseLock(data); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("err = %v", err)
			}
		})
	}
	if _, err := ParseLock([]byte("lock: " + lockFormat + "\nx: y\n")); err == nil || !strings.Contains(err.Error(), "unknown field") {
		t.Errorf("err = %v", err)
	}
}

// The versions by default are those that the tests of this repository run with.
func TestDefaultVersions(t *testing.T) {
	for file, c := range map[string]struct{ module, version string }{
		"containerd": {"github.com/containerd/containerd/v2", DefaultContainerd},
		"runc":       {"github.com/opencontainers/runc", DefaultRunc},
		"network":    {"github.com/containernetworking/plugins", DefaultCNIPlugins},
	} {
		data, err := os.ReadFile(filepath.Join("../../../nodebundle", file, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(data), c.module+" "+c.version) {
			t.Errorf("nodebundle/%s/go.mod does not require %s %s", file, c.module, c.version)
		}
	}
}

func TestRunKubeadm(t *testing.T) {
	kubeadm := filepath.Join(t.TempDir(), "kubeadm")
	if err := os.WriteFile(kubeadm, []byte("#!/bin/sh\necho registry.k8s.io/pause:3.10.2 \"$@\"\n[ $5 = v1.36.5 ] || { echo unknown >&2; exit 1; }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	names, err := RunKubeadm(t.Context(), kubeadm, "v1.36.5")
	if err != nil || !slices.Equal(names, []string{"registry.k8s.io/pause:3.10.2", "config", "images", "list", "--kubernetes-version", "v1.36.5"}) {
		t.Errorf("%q, %v", names, err)
	}
	if _, err := RunKubeadm(t.Context(), kubeadm, "v1.0.0"); err == nil || !strings.Contains(err.Error(), "unknown") {
		t.Errorf("err = %v", err)
	}
}
