package cli

import (
	"os"
	"path/filepath"
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
