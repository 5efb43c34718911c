package reset

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/agent/core/operation"
)

const rules = `*nat
:PREROUTING ACCEPT [0:0]
:KUBE-SERVICES - [0:0]
:CNI-HOSTPORT-DNAT - [0:0]
:DOCKER - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A PREROUTING -j DOCKER
-A KUBE-SERVICES -d 10.96.0.1/32 -j KUBE-SVC-X
-A DOCKER -i docker0 -j RETURN
COMMIT
`

const rulesAfter = `*nat
:PREROUTING ACCEPT [0:0]
:DOCKER - [0:0]
-A PREROUTING -j DOCKER
-A DOCKER -i docker0 -j RETURN
COMMIT
`

// tables is a Runner of iptables-save and iptables-restore.
type tables struct {
	rules, restored string
	fails           error
}

func (*tables) Has(name string) bool { return strings.HasPrefix(name, "iptables") }
func (f *tables) Run(context.Context, string, ...string) ([]byte, error) {
	return []byte(f.rules), nil
}
func (f *tables) RunInput(_ context.Context, input []byte, _ string, _ ...string) ([]byte, error) {
	f.restored = string(input)
	return nil, f.fails
}

func TestFlushIPTablesKeepsForeignRules(t *testing.T) {
	f := &tables{rules: rules}
	if err := (Cleaner{Runner: f}).flushIPTables(t.Context(), "iptables-save"); err != nil || f.restored != rulesAfter {
		t.Fatalf("restored %q: %v", f.restored, err)
	}
	f = &tables{rules: rulesAfter}
	if err := (Cleaner{Runner: f}).flushIPTables(t.Context(), "iptables-save"); err != nil || f.restored != "" {
		t.Fatalf("restored %q although nothing was to be done: %v", f.restored, err)
	}
	if err := (Cleaner{Runner: f}).flushIPTables(t.Context(), "ip6tables-save"); err != nil {
		t.Fatal(err)
	}
	// Verify does not look at chains.
	f = &tables{rules: rules, fails: errors.New("exit code 2")}
	unverifiable := (*operation.Unverifiable)(nil)
	if err := (Cleaner{Runner: f}).flushIPTables(t.Context(), "iptables-save"); !errors.As(err, &unverifiable) || !errors.Is(err, f.fails) {
		t.Fatalf("chains that could not be removed give %v", err)
	}
}
