package enroll

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func exists(t *testing.T, path string) bool {
	t.Helper()
	_, err := os.Stat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

// TestBootstrapKubeconfigGoes holds that no token stays on a host that is enrolled, and
// that one which somebody puts there later does.
func TestBootstrapKubeconfigGoes(t *testing.T) {
	s := newSigner(t)
	e := enroller(t, s)
	session := enroll(t, e)
	if !exists(t, e.BootstrapKubeconfig) {
		t.Fatal("it is gone before the server showed the Host: a power cut now would strand the host")
	}
	session.Served()
	if exists(t, e.BootstrapKubeconfig) {
		t.Error("the bootstrap kubeconfig is left on an enrolled host")
	}
	if again := enroll(t, e); again.Config().Host != s.URL {
		t.Errorf("a restart goes to %s", again.Config().Host)
	}
	session = enroll(t, e)
	if err := os.WriteFile(e.BootstrapKubeconfig, []byte("the operator's new word"), 0o600); err != nil {
		t.Fatal(err)
	}
	session.Served()
	if !exists(t, e.BootstrapKubeconfig) {
		t.Error("a bootstrap kubeconfig that came later was removed unread")
	}
}

func bootstrapKubeconfig(server string) []byte {
	return fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: %q, certificate-authority-data: Q0E=}}], users: [{name: u, user: {token: second}}]}`, server)
}

// TestRemovalAndHandOver holds that the removal of a bootstrap kubeconfig changes nothing
// about where a host belongs, whatever comes back by itself.
func TestRemovalAndHandOver(t *testing.T) {
	e := enroller(t, newSigner(t))
	first, err := os.ReadFile(e.BootstrapKubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	enroll(t, e).Served()
	const second, third = "https://second.example:6443", "https://third.example:6443"
	if err := e.moveHome(bootstrapKubeconfig(second)); err != nil {
		t.Fatal(err)
	}
	at := func(when, want string) {
		t.Helper()
		if server, err := e.server(); err != nil || server.Host != want {
			t.Errorf("%s: at %+v (%v), want %s", when, server, err, want)
		}
	}
	at("handed over", second)
	// A provisioning tool, or the plane of local hosts, writes the same file again.
	if err := os.WriteFile(e.BootstrapKubeconfig, first, 0o600); err != nil {
		t.Fatal(err)
	}
	at("the first kubeconfig came back", second)
	// The operator's word for another management cluster, which then shows the Host.
	if err := os.WriteFile(e.BootstrapKubeconfig, bootstrapKubeconfig(third), 0o600); err != nil {
		t.Fatal(err)
	}
	at("the operator's word", third)
	server, err := e.server()
	if err != nil {
		t.Fatal(err)
	}
	if err := e.saveKubeconfig(server); err != nil {
		t.Fatal(err)
	}
	digest, err := e.configuredDigest()
	if err != nil {
		t.Fatal(err)
	}
	if removed, err := e.removeBootstrapKubeconfig(digest); err != nil || !removed {
		t.Fatalf("removed %t, %v", removed, err)
	}
	at("its kubeconfig was removed", third)
}

// TestBootstrapKubeconfigMustBeSafe refuses what would send the token to somebody else.
func TestBootstrapKubeconfigMustBeSafe(t *testing.T) {
	good := string(bootstrapKubeconfig("https://192.0.2.1:6443"))
	for name, c := range map[string]struct{ old, with, want string }{
		"good":             {"", "", ""},
		"not verified":     {"certificate-authority-data: Q0E=", "insecure-skip-tls-verify: true", "insecure-skip-tls-verify not allowed"},
		"no authority":     {", certificate-authority-data: Q0E=", "", "certificate-authority-data is required"},
		"no TLS":           {"https://", "http://", "must be an https URL"},
		"proxy":            {"Q0E=", "Q0E=, proxy-url: 'http://192.0.2.9:3128'", "proxy"},
		"program":          {"token: second", "token: second, exec: {apiVersion: client.authentication.k8s.io/v1, command: id, interactiveMode: Never}", "program"},
		"own loopback":     {"192.0.2.1", "127.0.0.1", "loopback"},
		"own loopback, v6": {"192.0.2.1", "[::1]", "loopback"},
		"localhost":        {"192.0.2.1", "localhost", "loopback"},
		"no address":       {"192.0.2.1", "0.0.0.0", "loopback"},
		"no address in v6": {"192.0.2.1", "[::ffff:0.0.0.0]", "loopback"},
		"v4 in v6":         {"192.0.2.1", "[::ffff:127.0.0.1]", "loopback"},
		"another case":     {"192.0.2.1", "LocalHost", "loopback"},
		"a root dot":       {"192.0.2.1", "localhost.", "loopback"},
		"a domain":         {"192.0.2.1", "a.LOCALHOST", "loopback"},
		"of /etc/hosts":    {"192.0.2.1", "ip6-localhost", "loopback"},
	} {
		t.Run(name, func(t *testing.T) {
			e := &Enroller{StateDir: t.TempDir(), BootstrapKubeconfig: filepath.Join(t.TempDir(), "bootstrap")}
			content := good
			if c.old != "" {
				content = strings.Replace(good, c.old, c.with, 1)
			}
			if err := os.WriteFile(e.BootstrapKubeconfig, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			_, server := e.server()
			_, bootstrap := e.bootstrap()
			for _, err := range []error{server, bootstrap} {
				if (c.want == "") != (err == nil) || c.want != "" && !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v, want %q", err, c.want)
				}
			}
		})
	}
}
