package provision

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/agent/link/enroll"
	"github.com/slipway-dev/slipway/internal/host"
)

// The shell of a machine tells of its agent's key what spec.hostID has.
func TestTheKeyOfAMachine(t *testing.T) {
	pkcs8 := func(t *testing.T, key any) []byte {
		t.Helper()
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	}
	for name, tc := range map[string]struct {
		// write makes the key file, and returns the ID that it has; empty for none.
		write func(t *testing.T, dir, file string) string
	}{
		"of an agent": {func(t *testing.T, dir, _ string) string {
			t.Helper()
			id, err := enroll.Identity(dir)
			if err != nil {
				t.Fatal(err)
			}
			return id
		}},
		"in another form": {func(t *testing.T, _, file string) string {
			t.Helper()
			key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			id, err := host.ID(&key.PublicKey)
			if err := errors.Join(err, os.WriteFile(file, pkcs8(t, key), 0o600)); err != nil {
				t.Fatal(err)
			}
			return id
		}},
		"of another kind": {func(t *testing.T, _, file string) string {
			t.Helper()
			_, key, err := ed25519.GenerateKey(rand.Reader)
			if err := errors.Join(err, os.WriteFile(file, pkcs8(t, key), 0o600)); err != nil {
				t.Fatal(err)
			}
			return ""
		}},
		"damaged": {func(t *testing.T, _, file string) string {
			t.Helper()
			if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: make([]byte, 100)}), 0o600); err != nil {
				t.Fatal(err)
			}
			return ""
		}},
		"none": {func(*testing.T, string, string) string { return "" }},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			want := tc.write(t, dir, filepath.Join(dir, "identity.key"))
			printed, err := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(factsScript, stateDir, dir)).Output()
			if err != nil {
				t.Fatal(err)
			}
			if facts, err := parseFacts(string(printed)); err != nil || facts.HostID != want {
				t.Errorf("the key is %q, want %q: %v", facts.HostID, want, err)
			}
		})
	}
}

// The namespace is where the host was assigned to, unless it was configured anew since.
func TestFactsOfAnAssignedHost(t *testing.T) {
	const file = "/etc/slipway/agent.yaml"
	for name, tc := range map[string]struct{ configuration, assigned, want string }{
		"never assigned":        {"namespace: pool\n", "", "pool"},
		"assigned":              {"namespace: pool\n", `{"namespace":"team-a","configured":"pool","supersedes":"","certificate":"eA=="}`, "team-a"},
		"configured anew since": {"namespace: third\n", `{"namespace":"team-a","configured":"pool","supersedes":"","certificate":"eA=="}`, "third"},
		"not enrolled":          {"", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for path, content := range map[string]string{filepath.Join(dir, "agent.yaml"): tc.configuration, filepath.Join(dir, "assigned.json"): tc.assigned} {
				if content == "" {
					continue
				}
				if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			script := strings.NewReplacer(file, filepath.Join(dir, "agent.yaml"), stateDir, dir).Replace(factsScript)
			printed, err := exec.CommandContext(t.Context(), "sh", "-c", script).Output()
			if err != nil {
				t.Fatal(err)
			}
			facts, err := parseFacts(string(printed))
			if err != nil || facts.Namespace != tc.want {
				t.Errorf("namespace %q, want %q: %v", facts.Namespace, tc.want, err)
			}
		})
	}
}
