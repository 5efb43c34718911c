package cli

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/provision"
)

// What a machine of the file says goes before what is said of all, and a file that is wrong anywhere is refused
// as a whole.
func TestReadHosts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hosts.yaml")
	read := func(text string) ([]string, map[string]provision.Place, error) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return readHosts(path, "ann", provision.Place{Labels: map[string]string{"role": "worker", "site": "west"}, FailureDomain: "rack0"})
	}
	addresses, places, err := read(`
hosts:
- address: root@192.0.2.11
  failureDomain: rack1
  labels: {role: control-plane}
- address: 192.0.2.12:2222
`)
	if want := []string{"root@192.0.2.11:22", "ann@192.0.2.12:2222"}; err != nil || !reflect.DeepEqual(addresses, want) {
		t.Errorf("%v, %q", err, addresses)
	}
	want := map[string]provision.Place{
		"root@192.0.2.11:22":  {Labels: map[string]string{"role": "control-plane", "site": "west"}, FailureDomain: "rack1"},
		"ann@192.0.2.12:2222": {Labels: map[string]string{"role": "worker", "site": "west"}, FailureDomain: "rack0"},
	}
	if !reflect.DeepEqual(places, want) {
		t.Errorf("places %+v", places)
	}
	for text, want := range map[string]string{
		"hosts: []":                                          "it has no hosts",
		"hosts: [{address: a, rack: b}]":                     `unknown field "rack"`,
		"hosts: [{address: ann@a}, {address: a}]":            "hosts[1].address: ann@a:22 is in the file twice",
		"hosts: [{address: a, labels: {role: 'not valid'}}]": "hosts[0].labels",
		"hosts: [{labels: {a: b}}]":                          "hosts[0].address",
	} {
		if _, _, err := read(text); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "--file "+path) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
