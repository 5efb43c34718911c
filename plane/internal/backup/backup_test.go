package backup

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"filippo.io/age"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/internal/testenv/level"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/internal/testenv/powercut"
	"github.com/slipway-dev/slipway/plane/internal/etcd"
	"github.com/slipway-dev/slipway/plane/internal/instance"
	"github.com/slipway-dev/slipway/plane/internal/kube"
	"github.com/slipway-dev/slipway/plane/internal/statedir"
)

const kubernetes = "v1.36.5"

// plane is what a plane has on its disk, with an etcd that serves.
type plane struct {
	*instance.Instance
	client *clientv3.Client
	key    *age.X25519Identity
	to     string
	stop   func()
}

// newPlane has three hosts, a cluster, and a Secret.
func newPlane(t *testing.T) *plane {
	t.Helper()
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	inst, err := instance.Create(filepath.Join(short(t), "plane"), instance.Config{Name: "earth", APIPort: 36443, Bundle: "/bundle"})
	if err != nil {
		t.Fatal(err)
	}
	p := &plane{Instance: inst, key: key, to: t.TempDir()}
	p.serve(t)
	if err := kube.NewKey(p.Path("encryption"), none{}).Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"ca.crt": "the authority", "ca.key": "its key", "webhook/tls.key": "another"} {
		path := p.Path("pki", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"infrastructure.slipway.dev/hosts/default/a", "infrastructure.slipway.dev/hosts/default/b",
		"infrastructure.slipway.dev/hosts/default/c", "cluster.x-k8s.io/clusters/default/prod", "configmaps/default/known"} {
		p.put(t, name, "{}")
	}
	p.put(t, "secrets/default/kubeconfig", "k8s:enc:secretbox:v1:"+keyName(t, p.Path("encryption", kube.EncryptionConfigFile))+":...")
	return p
}

// short is a directory whose path leaves room for sockets.
func short(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

type none struct{}

func (none) Any(context.Context, string) (bool, error) { return false, nil }

func keyName(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var config apiserverv1.EncryptionConfiguration
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	return config.Resources[0].Providers[0].Secretbox.Keys[0].Name
}

// serve starts etcd where the plane has it.
func (p *plane) serve(t *testing.T) {
	t.Helper()
	server, err := etcd.Open(poll.Context(t), etcd.Options{Dir: p.Path("etcd"), Fast: true, Quiet: true})
	if err != nil {
		t.Fatal(err)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.Endpoint()}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	p.client = client
	stopped := false
	p.stop = func() {
		if stopped {
			return
		}
		stopped = true
		if err := errors.Join(client.Close(), server.Stop(context.Background())); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(p.stop)
}

func (p *plane) put(t *testing.T, name, value string) {
	t.Helper()
	if _, err := p.client.Put(t.Context(), registry+name, value); err != nil {
		t.Fatal(err)
	}
}

func (p *plane) get(t *testing.T, name string) (value string, revision int64) {
	t.Helper()
	got, err := p.client.Get(t.Context(), registry+name)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Kvs) == 0 {
		return "", got.Header.Revision
	}
	return string(got.Kvs[0].Value), got.Header.Revision
}

func (p *plane) options() Options {
	return Options{Instance: p.Instance, Kubernetes: kubernetes, To: p.to, Recipients: []age.Recipient{p.key.Recipient()}, Progress: silent}
}

func silent(string, ...any) {}

func (p *plane) backup(t *testing.T) *Result {
	t.Helper()
	made, err := Create(t.Context(), p.options())
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func (p *plane) source(path string) Source {
	return Source{Path: path, Identities: []age.Identity{p.key}, Kubernetes: kubernetes, Progress: silent}
}

func TestBackupIsRestored(t *testing.T) {
	p := newPlane(t)
	made := p.backup(t)
	if want := (Content{Revision: made.Content.Revision, Objects: 6, Clusters: 1, Hosts: 3, Secrets: 1}); made.Content != want {
		t.Errorf("counted %+v, want %+v", made.Content, want)
	}
	if entries, err := os.ReadDir(p.Path(workDir)); err != nil || len(entries) > 0 {
		t.Errorf("%s still has %v: %v", workDir, entries, err)
	}
	if err := statedir.CheckPrivate(made.Path); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(made.Path); err != nil || bytes.Contains(text, []byte("its key")) || bytes.Contains(text, []byte("registry")) {
		t.Errorf("the backup is readable without a key: %v", err)
	}
	if m, err := Verify(t.Context(), p.source(made.Path)); err != nil || m.Content != made.Content {
		t.Errorf("verified %+v, want %+v: %v", m, made.Content, err)
	}
	// A client goes on to see the plane after the backup.
	p.put(t, "configmaps/default/unknown", "{}")
	_, seen := p.get(t, "configmaps/default/unknown")
	p.stop()

	dir := filepath.Join(short(t), "other")
	m, kept, err := Restore(t.Context(), p.source(made.Path), dir, false)
	if err != nil || kept != "" || m.Name != "earth" {
		t.Fatalf("restored %+v, kept %q: %v", m, kept, err)
	}
	restored, err := instance.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if restored.Config != p.Config {
		t.Errorf("the settings are %+v, want %+v", restored.Config, p.Config)
	}
	for _, name := range []string{"pki/ca.key", "pki/webhook/tls.key", "encryption/encryption.yaml"} {
		was, err1 := os.ReadFile(p.Path(name))
		is, err2 := os.ReadFile(restored.Path(name))
		if err := errors.Join(err1, err2, statedir.CheckPrivate(restored.Path(name))); err != nil || !bytes.Equal(was, is) {
			t.Errorf("%s is %q, want %q: %v", name, is, was, err)
		}
	}
	other := &plane{Instance: restored}
	other.serve(t)
	if value, _ := other.get(t, "configmaps/default/known"); value != "{}" {
		t.Errorf("an object of the backup is %q", value)
	}
	value, revision := other.get(t, "configmaps/default/unknown")
	if value != "" || revision <= seen {
		t.Errorf("what came after the backup is %q; the revision is %d, want more than the %d that a client has seen", value, revision, seen)
	}
	// It would miss what changes otherwise, without an error.
	watched := <-other.client.Watch(poll.Context(t), registry, clientv3.WithPrefix(), clientv3.WithRev(seen+1))
	if !errors.Is(watched.Err(), rpctypes.ErrCompacted) {
		t.Errorf("a watch from the future of the backup gets %v, want that its revision is compacted", watched.Err())
	}
}

func TestReplace(t *testing.T) {
	p := newPlane(t)
	made := p.backup(t)
	if _, _, err := Restore(t.Context(), p.source(made.Path), p.Dir, false); !errors.As(err, new(*ExistsError)) {
		t.Errorf("over a plane: %v, want an ExistsError", err)
	}
	lock, err := statedir.Acquire(p.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := Restore(t.Context(), p.source(made.Path), p.Dir, true); err == nil || !strings.Contains(err.Error(), "slipway down") {
		t.Errorf("over a plane that serves: %v", err)
	}
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	p.put(t, "configmaps/default/unknown", "{}")
	p.stop()
	if err := p.Apply(instance.Change{APIPort: 7777}, false); err != nil {
		t.Fatal(err)
	}
	_, kept, err := Restore(t.Context(), p.source(made.Path), p.Dir, true)
	if err != nil {
		t.Fatal(err)
	}
	if restored, err := instance.Open(p.Dir); err != nil || restored.APIPort != 7777 {
		t.Errorf("the settings are %+v, want those of the plane that is replaced: %v", restored, err)
	}
	former := &plane{Instance: &instance.Instance{Dir: kept}}
	former.serve(t)
	if value, _ := former.get(t, "configmaps/default/unknown"); value != "{}" {
		t.Errorf("what was replaced is not kept: %q", value)
	}
	former.stop()

	other := newPlane(t)
	other.stop()
	if err := os.WriteFile(other.Path("pki", "ca.crt"), []byte("another authority"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := tree(t, other.Dir)
	if _, _, err := Restore(t.Context(), p.source(made.Path), other.Dir, true); err == nil || !strings.Contains(err.Error(), "another certificate authority") {
		t.Errorf("a backup of another plane: %v", err)
	}
	if after := tree(t, other.Dir); after != before {
		t.Errorf("was\n%s\nis\n%s", before, after)
	}
}

func tree(t *testing.T, dir string) string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		names = append(names, strings.TrimPrefix(path, dir))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(names, "\n")
}

// TestPowerCuts: whenever the power is cut, the same command ends the restore, and nothing is lost that was there.
func TestPowerCuts(t *testing.T) {
	p := newPlane(t)
	made := p.backup(t)
	p.put(t, "configmaps/default/unknown", "{}")
	p.stop()
	for n := range level.Endless() {
		dir := filepath.Join(short(t), "plane")
		if err := os.CopyFS(dir, os.DirFS(p.Dir)); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		machine := powercut.At(t, dir, n)
		_, _, err := Restore(t.Context(), p.source(made.Path), dir, true)
		machine.On()
		if !machine.Cut() {
			if err != nil {
				t.Fatal(err)
			}
			return
		}
		if _, err := instance.Open(dir); errors.Is(err, instance.ErrNone) {
			if _, err := instance.Create(dir, p.Config); err == nil || !strings.Contains(err.Error(), "slipway restore") {
				t.Fatalf("cut at %s: `up` would start an empty plane: %v", machine.Changes[n-1], err)
			}
		}
		if _, _, err = Restore(t.Context(), p.source(made.Path), dir, true); err != nil {
			t.Fatalf("again after a cut at %s: %v", machine.Changes[n-1], err)
		}
		restored, err := instance.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		content, err := read(t.Context(), restored.Path("etcd"), restored.Path("encryption", kube.EncryptionConfigFile))
		if err != nil || content.Objects != made.Content.Objects {
			t.Fatalf("after a cut at %s: %+v, %v", machine.Changes[n-1], content, err)
		}
		if kept, err := filepath.Glob(restored.Path("replaced-*", "etcd", "member")); err != nil || len(kept) == 0 {
			t.Fatalf("after a cut at %s what was there is gone: %v", machine.Changes[n-1], err)
		}
	}
}

// TestDamage: whatever happened to a file, it is refused, and the directory stays as it was.
func TestDamage(t *testing.T) {
	p := newPlane(t)
	made := p.backup(t)
	whole, err := os.ReadFile(made.Path)
	if err != nil {
		t.Fatal(err)
	}
	damage := map[string][]byte{"empty": nil, "text": []byte("no backup at all"), "followed by more": append(slices.Clone(whole), "more"...)}
	for _, part := range []int{1, 3, 7, 9} {
		at := len(whole) * part / 10
		damage[fmt.Sprintf("cut off at %d tenths", part)] = whole[:at]
		changed := slices.Clone(whole)
		changed[at] ^= 1
		damage[fmt.Sprintf("another bit at %d tenths", part)] = changed
	}
	damage["without its last byte"] = whole[:len(whole)-1]
	for name, content := range damage {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "backup")
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			_ = refused[*DamagedError](t, p.source(path))
		})
	}
	t.Run("another key", func(t *testing.T) {
		other, err := age.GenerateX25519Identity()
		if err != nil {
			t.Fatal(err)
		}
		source := p.source(made.Path)
		source.Identities = []age.Identity{other}
		_ = refused[*KeyError](t, source)
	})
	t.Run("newer Kubernetes", func(t *testing.T) {
		source := p.source(made.Path)
		source.Kubernetes = "v1.35.8"
		if _, err := Verify(t.Context(), source); err == nil || !strings.Contains(err.Error(), "use that version") {
			t.Error(err)
		}
	})
}

// refused fails unless a backup is refused with an error of that type, and leaves nothing.
func refused[E error](t *testing.T, s Source) error {
	t.Helper()
	dir := filepath.Join(short(t), "plane")
	_, _, err := Restore(t.Context(), s, dir, false)
	var want E
	if !errors.As(err, &want) {
		t.Errorf("got %v, want a %T", err, want)
	}
	if left := tree(t, dir); left != "" {
		t.Errorf("left %s", left)
	}
	if _, err := Verify(t.Context(), s); !errors.As(err, &want) {
		t.Errorf("verify: got %v, want a %T", err, want)
	}
	return err
}

// TestStrangers: anybody who has the public half of a key can write a file that it opens.
func TestStrangers(t *testing.T) {
	p := newPlane(t)
	type entry struct {
		tar.Header
		content string
	}
	regular := func(name, content string) entry {
		return entry{tar.Header{Name: name, Size: int64(len(content)), Mode: 0o600}, content}
	}
	listed := func(names ...string) string {
		m := Manifest{Format: format, Name: "evil", Kubernetes: kubernetes}
		for _, name := range names {
			sum := sha256.Sum256([]byte("x"))
			m.Files = append(m.Files, File{Name: name, Size: 1, SHA256: hex.EncodeToString(sum[:])})
		}
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	all := []string{"etcd.db", "instance.json"}
	for name, entries := range map[string][]entry{
		"nothing: EOF": {},
		"no manifest: first entry is not backup.json":        {regular("etcd.db", "x")},
		"a great manifest: first entry is not backup.json":   {regular("backup.json", strings.Repeat(" ", maxManifest)+listed(all...))},
		"no snapshot: etcd.db is missing":                    {regular("backup.json", listed("instance.json")), regular("instance.json", "x")},
		"a file above: is nothing of a plane":                {regular("backup.json", listed(append(all, "pki/../../evil")...))},
		"an absolute file: is nothing of a plane":            {regular("backup.json", listed(append(all, "/pki/evil")...))},
		"a file of the plane's: is nothing of a plane":       {regular("backup.json", listed(append(all, "hosts/evil")...))},
		"another order: follows where etcd.db should":        {regular("backup.json", listed(all...)), regular("instance.json", "x"), regular("etcd.db", "x")},
		"a link: follows where pki/evil should":              {regular("backup.json", listed(append([]string{"pki/evil"}, all...)...)), {tar.Header{Name: "pki/evil", Typeflag: tar.TypeSymlink, Linkname: "/etc"}, ""}},
		"another content: etcd.db is not what was written":   {regular("backup.json", listed(all...)), regular("etcd.db", "y"), regular("instance.json", "x")},
		"one file too many: it does not end where it should": {regular("backup.json", listed(all...)), regular("etcd.db", "x"), regular("instance.json", "x"), regular("pki/evil", "x")},
		"no etcd: restore etcd":                              {regular("backup.json", listed(all...)), regular("etcd.db", "x"), regular("instance.json", "x")},
	} {
		name, what, _ := strings.Cut(name, ": ")
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "backup")
			var out bytes.Buffer
			encrypted, err := age.Encrypt(&out, p.key.Recipient())
			if err != nil {
				t.Fatal(err)
			}
			compressed := gzip.NewWriter(encrypted)
			archive := tar.NewWriter(compressed)
			for _, e := range entries {
				err1 := archive.WriteHeader(&e.Header)
				_, err2 := archive.Write([]byte(e.content))
				if err := errors.Join(err1, err2); err != nil {
					t.Fatal(err)
				}
			}
			if err := errors.Join(archive.Close(), compressed.Close(), encrypted.Close(), os.WriteFile(path, out.Bytes(), 0o600)); err != nil {
				t.Fatal(err)
			}
			if err := refused[*DamagedError](t, p.source(path)); err != nil && !strings.Contains(err.Error(), what) {
				t.Errorf("got %v, want that %s", err, what)
			}
		})
	}
}

// TestSecretsMustBeReadable: a backup whose Secrets nobody could read is not written.
func TestSecretsMustBeReadable(t *testing.T) {
	p := newPlane(t)
	p.put(t, "secrets/default/old", "k8s:enc:secretbox:v1:another:...")
	if _, err := Create(t.Context(), p.options()); err == nil || !strings.Contains(err.Error(), "secrets/default/old") {
		t.Errorf("got %v, want the name of the Secret", err)
	}
	if entries, err := os.ReadDir(p.to); err != nil || len(entries) > 0 {
		t.Errorf("wrote %v: %v", entries, err)
	}
}

func TestPassphrase(t *testing.T) {
	p := newPlane(t)
	o := p.options()
	recipient, err := age.NewScryptRecipient("a long passphrase")
	if err != nil {
		t.Fatal(err)
	}
	recipient.SetWorkFactor(10)
	o.Recipients = []age.Recipient{recipient}
	made, err := Create(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	source := p.source(made.Path)
	for passphrase, works := range map[string]bool{"a long passphrase": true, "another": false} {
		identity, err := age.NewScryptIdentity(passphrase)
		if err != nil {
			t.Fatal(err)
		}
		source.Identities = []age.Identity{identity}
		if _, err := Verify(t.Context(), source); (err == nil) != works {
			t.Errorf("with %q: %v", passphrase, err)
		}
	}
}

func TestKeep(t *testing.T) {
	p := newPlane(t)
	others := []string{"earth-20251231T000000Z", "earth-latest.slipway-backup", "mars-20200101T000000Z.slipway-backup"}
	old := []string{"earth-20251201T000000Z.slipway-backup", "earth-20251101T000000Z.slipway-backup"}
	for _, name := range append(others, old...) {
		if err := os.WriteFile(filepath.Join(p.to, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o := p.options()
	o.Keep = 2
	made, err := Create(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	entries, err := os.ReadDir(p.to)
	for _, entry := range entries {
		left = append(left, entry.Name())
	}
	want := slices.Concat(others, []string{old[0], filepath.Base(made.Path)})
	slices.Sort(want)
	if err != nil || !slices.Equal(left, want) {
		t.Errorf("left %v, want %v: %v", left, want, err)
	}
	if last, err := statedir.LastBackup(p.Dir); err != nil || last == nil || last.Path != made.Path || !last.Created.Equal(made.Created) {
		t.Errorf("the last backup is %+v: %v", last, err)
	}
}
