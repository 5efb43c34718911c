package cli

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"
)

// What is wrong with a command line is said before anybody is asked anything.
func TestHostAddRefuses(t *testing.T) {
	kubeconfig := as(t, "", "")
	t.Setenv("SSH_AUTH_SOCK", "")
	dir := t.TempDir()
	script, key, agent := filepath.Join(dir, "script"), filepath.Join(dir, "key.pub"), os.Args[0]
	_, public, err := note.GenerateKey(nil, "test")
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string]string{script: "#!/bin/sh\n", key: public} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct{ args, want string }{
		{"", "ADDRESS[:PORT]... is missing, or -f"},
		{"a -f " + script, "name none beside it"},
		{"a --parallel 0", "--parallel: want at least 1"},
		{"a --timeout 0s", "--timeout: want"},
		{"a --host-bundle " + dir, "--host-bundle and --public-key go together"},
		{"a --kubernetes-version v1.36.3", "want --host-bundle, too"},
		{"a --labels -bad=x", "--labels"},
		{"a", "there is no slipway-agent in"},
		{"a --agent " + script, "is no program for Linux"},
		{"a --agent " + agent + " --host-bundle " + dir + " --public-key " + key, "is no OCI image layout"},
		{"a --agent " + agent + " --identity-file " + script, "it is no private key"},
		{"a --agent " + agent, "there is no key to log in with"},
	} {
		out, err := run(t, append(append([]string{"host", "add"}, strings.Fields(tc.args)...), "--kubeconfig", kubeconfig)...)
		if err == nil || !strings.Contains(err.Error(), tc.want) || out != "" {
			t.Errorf("%s: %v\n%s", tc.args, err, out)
		}
	}
}

// A dry run says which host each machine of a file would become, and asks none of them.
func TestHostAddDryRun(t *testing.T) {
	kubeconfig := as(t, "", "")
	t.Setenv("SSH_AUTH_SOCK", "")
	dir := t.TempDir()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	login, hosts := filepath.Join(dir, "key"), filepath.Join(dir, "hosts.yaml")
	for path, content := range map[string]string{
		login: string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), hosts: "hosts: [{address: root@192.0.2.11, failureDomain: rack1, labels: {role: control-plane}}, {address: root@192.0.2.12}]",
		filepath.Join(dir, "known"): "",
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := run(t, "host", "add", "-f", hosts, "--dry-run", "--labels", "site=west", "--agent", os.Args[0], "--identity-file", login, "--known-hosts", filepath.Join(dir, "known"), "-n", "prod", "--kubeconfig", kubeconfig)
	for _, want := range []string{`root@192\.0\.2\.11:22 +prod +rack1 +role=control-plane,site=west`, `root@192\.0\.2\.12:22 +prod +site=west`} {
		if err != nil || !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("%v, want %s:\n%s", err, want, out)
		}
	}
}
