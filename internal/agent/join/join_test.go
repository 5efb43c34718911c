package join

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"flag"
	"io"
	"io/fs"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/run/config"
	"github.com/slipway-dev/slipway/internal/host"
)

const token = "abcdef.0123456789abcdef"

// server is an API server that fails the test when it is asked anything: what it gets
// before it is verified could be the token.
func server(t *testing.T) (*httptest.Server, []byte) {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("asked for %s with %q", r.URL, r.Header.Get("Authorization"))
	}))
	t.Cleanup(s.Close)
	return s, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

// options that write into a directory of the test.
func options(t *testing.T, server string, ca []byte) Options {
	t.Helper()
	dir := t.TempDir()
	o := Options{Server: server, CA: ca, Token: token, Namespace: "prod", ConfigPath: filepath.Join(dir, "agent.yaml")}
	content := string(Configuration("prod", "")) + "bootstrapKubeconfig: " + dir + "/bootstrap\nstateDir: " + dir + "/state\n"
	if err := os.WriteFile(o.ConfigPath, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return o
}

func bootstrapOf(o Options) string { return filepath.Join(filepath.Dir(o.ConfigPath), "bootstrap") }

func TestCommandLine(t *testing.T) {
	_, ca := server(t)
	want := Options{Server: "https://10.0.0.1:6443", CA: append(slices.Clone(ca), ca...), Token: token, Namespace: "prod", HostName: "a-1", ConfigPath: config.DefaultPath}
	args, err := Args(want)
	if err != nil {
		t.Fatal(err)
	}
	if line := strings.Join(args, " "); strings.ContainsAny(line, "'\"$`\\;&|<>*?()\n=") {
		t.Errorf("a shell would take it apart: %s", line)
	}
	got, err := Parse(args[1:], io.Discard)
	if err != nil || args[0] != "join" || got.Server != want.Server || string(got.CA) != string(want.CA) || got.Token != token || got.Namespace != "prod" || got.HostName != "a-1" || got.ConfigPath != want.ConfigPath {
		t.Errorf("got %+v, %v", got, err)
	}
	set := func(name, value string) []string {
		changed := slices.Clone(args[1:])
		if name == "" {
			changed[0] = value
		} else {
			changed[slices.Index(changed, name)+1] = value
		}
		return changed
	}
	for want, args := range map[string][]string{
		"SERVER: want an https URL":    set("", "10.0.0.1:6443"),
		"SERVER: want an https":        set("", "http://10.0.0.1"),
		"this host's own loopback":     set("", "https://127.0.0.1:6443"),
		"--token: want":                set("--token", "abc"),
		"--ca-cert-data: ":             set("--ca-cert-data", args[7][:40]),
		"--ca-cert-data: illegal":      set("--ca-cert-data", "&"),
		"it holds no certificate":      set("--ca-cert-data", ""),
		"--namespace: want":            set("--namespace", "A b"),
		"--host-name: ":                set("--host-name", "UPPER"),
		"before the flags":             append(slices.Clone(args[1:]), "more"),
		"flag provided but not define": append(slices.Clone(args[1:]), "--bogus"),
	} {
		if _, err := Parse(args, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\ndoes not say %q", err, want)
		}
	}
	var help strings.Builder
	if _, err := Parse([]string{"--help"}, &help); !errors.Is(err, flag.ErrHelp) || !strings.Contains(help.String(), "-ca-cert-data") {
		t.Errorf("%v\n%s", err, help.String())
	}
}

// The token may come from a file, of which there is one.
func TestTokenFile(t *testing.T) {
	_, ca := server(t)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args, err := Args(Options{Server: "https://10.0.0.1:6443", CA: ca, TokenFile: file, Namespace: "prod"})
	if err != nil {
		t.Fatal(err)
	}
	if o, err := Parse(args[1:], io.Discard); err != nil || o.Token != token || slices.Contains(args, token) {
		t.Errorf("%+v, %v of %q", o, err, args)
	}
	if _, err := Parse(append(args[1:], "--token", token), io.Discard); err == nil || !strings.Contains(err.Error(), "not both") {
		t.Errorf("both: %v", err)
	}
	if _, err := Parse([]string{"https://10.0.0.1:6443", "--token-file", file + "x"}, io.Discard); err == nil || !strings.Contains(err.Error(), "--token-file") {
		t.Errorf("no file: %v", err)
	}
}

// It is repeated, and the file is what the agent takes.
func TestJoin(t *testing.T) {
	s, ca := server(t)
	o := options(t, s.URL, ca)
	for _, o.Token = range []string{"ghijkl.0123456789abcdef", token} {
		if err := Run(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(bootstrapOf(o))
	if err != nil {
		t.Fatal(err)
	}
	target, err := host.ParseTarget(data)
	if err != nil || target.Server != s.URL || target.Token != token || string(target.CA) != string(ca) {
		t.Errorf("%v\n%s", err, data)
	}
	if info, err := os.Stat(bootstrapOf(o)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestConfigurationIsWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.yaml")
	for _, namespace := range []string{"prod", "1234", "007", "1e3", "true", "no", "null"} {
		for _, name := range []string{"", "a-1", "1234", "0x10", "y", "off"} {
			if err := write(path, Configuration(namespace, name), 0o644); err != nil {
				t.Fatal(err)
			}
			if c, err := config.Load(path); err != nil || c.Namespace != namespace || c.HostName != name {
				t.Errorf("namespace %q, host name %q: %+v, %v", namespace, name, c, err)
			}
		}
	}
}

// With keys of host bundles the agent installs versions, and has the keys before it is told so.
func TestVersionsAreInstalledByKeys(t *testing.T) {
	_, public, err := note.GenerateKey(rand.Reader, "test")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file, copied := filepath.Join(dir, "public"), filepath.Join(dir, "etc", "hostbundle.pub")
	if err := os.WriteFile(file, []byte(public), 0o600); err != nil {
		t.Fatal(err)
	}
	o := Options{Namespace: "prod", HostName: "a-1", ConfigPath: filepath.Join(dir, "etc", "agent.yaml"), PublicKeyFile: file}
	keys, err := o.publicKeys()
	if err != nil {
		t.Fatal(err)
	}
	if err := o.configure(copied, keys); err != nil {
		t.Fatal(err)
	}
	if c, err := config.Load(o.ConfigPath); err != nil || c.Software.Management != infrav1.HostSoftwareManaged || c.HostName != "a-1" {
		t.Errorf("%+v, %v", c, err)
	}
	if data, err := os.ReadFile(copied); err != nil || string(data) != public {
		t.Errorf("%q, %v", data, err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "etc")); err != nil {
		t.Fatal(err)
	}
	if err := o.configure(filepath.Join(file, "no-directory"), keys); err == nil {
		t.Error("the keys cannot be written, and no error")
	}
	if _, err := os.Stat(o.ConfigPath); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the agent is told of keys that are not there: %v", err)
	}
	for content, says := range map[string]string{"": "--public-key", "not a key": "--public-key"} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := o.publicKeys(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", content, err)
		}
	}
}

func TestNothingIsWrittenFor(t *testing.T) {
	s, ca := server(t)
	enrolled := func(o Options) {
		path := filepath.Join(filepath.Dir(o.ConfigPath), "state", "kubeconfig")
		kubeconfig, err := BootstrapKubeconfig("https://other:6443", ca, token)
		if err == nil {
			err = write(path, kubeconfig, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"another CA":         {func(o *Options) { o.CA = otherCA(t) }, "is not the server of the CA in this command"},
		"nobody there":       {func(o *Options) { o.Server = "https://127.0.0.1:1" }, "reach https://127.0.0.1:1"},
		"another name":       {func(o *Options) { o.Server = strings.Replace(o.Server, "127.0.0.1", "localhost", 1) }, "reach https://localhost"},
		"another namespace":  {func(o *Options) { o.Namespace = "dev" }, "says namespace prod"},
		"another host":       {func(o *Options) { o.HostName = "b" }, `hostName "b"`},
		"enrolled elsewhere": {func(o *Options) { enrolled(*o) }, "enrolled at https://other:6443"},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, s.URL, ca)
			tc.change(&o)
			if err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if _, err := os.Stat(bootstrapOf(o)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the bootstrap kubeconfig was written: %v", err)
			}
		})
	}
}

// otherCA is one that did not sign the server's certificate.
func otherCA(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
