package cli

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/ptr"

	"github.com/slipway-dev/slipway/internal/display"
	"github.com/slipway-dev/slipway/internal/management"
	"github.com/slipway-dev/slipway/internal/status"
	"github.com/slipway-dev/slipway/test/clitest"
)

func plugin() *cobra.Command { return Root(Program{Name: PluginName}) }

// run runs kubectl-slipway and returns what it printed.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return clitest.Run(t.Context(), plugin(), args...)
}

func TestTree(t *testing.T) {
	clitest.Tree(t, plugin, map[string]string{"openapi": `"openapi": "3.0.0"`})
	if _, err := run(t, "check", "provder"); err == nil || !strings.Contains(err.Error(), `did you mean "provider"?`) {
		t.Errorf("got %v", err)
	}
}

func TestHostRowsJoinBothViews(t *testing.T) {
	rows := hostRows(
		[]management.LocalHost{{Name: "host-1", State: "off", Address: "10.88.0.11"}, {Name: "host-2", Address: "10.88.0.12"}},
		[]status.Host{{Name: "host-1", Phase: "Running", ClaimedBy: "a/b"}, {Name: "host-2", Addresses: []string{"10.88.0.112"}}, {Name: "far", Phase: "Available", Cgroups: "V1", Addresses: []string{"192.0.2.1"}, RebootRequiredSince: ptr.To(time.Now().Add(-49 * time.Hour))}},
		false,
	)
	if len(rows) != 3 || rows[0].Phase != "Running" || rows[0].Sandbox != "off" || rows[2].Sandbox != "" || !slices.Equal(rows[2].Addresses, []string{"192.0.2.1"}) {
		t.Errorf("%+v", rows)
	}
	// What a host reports comes before what its plane gave it.
	if !slices.Equal(rows[0].Addresses, []string{"10.88.0.11"}) || !slices.Equal(rows[1].Addresses, []string{"10.88.0.112"}) {
		t.Errorf("addresses of local hosts: %q, %q", rows[0].Addresses, rows[1].Addresses)
	}
	out := display.NewPage(nil)
	if err := printHosts(out, rows, true); err != nil || !strings.Contains(out.String(), "192.0.2.1") || !strings.Contains(out.String(), "BECAUSE") || strings.Count(out.String(), "required for 2d") != 1 || strings.Count(out.String(), "V1, which kubelets refuse from 1.35 on") != 1 {
		t.Errorf("%v\n%s", err, out.String())
	}
}

// TestLocalHostsAreJoinedByMachine holds that a Host gets the state and address of the local
// host that it is of: not of one with its name alone, and also where it has another namespace.
func TestLocalHostsAreJoinedByMachine(t *testing.T) {
	local := []management.LocalHost{{Namespace: "default", Name: "host-1", MachineID: "one", State: "on", Address: "10.88.0.11", PID: 4711}}
	for name, c := range map[string]struct {
		host   status.Host
		joined bool
	}{
		"its own":                {status.Host{Namespace: "default", Name: "host-1", MachineID: "one"}, true},
		"not reported yet":       {status.Host{Namespace: "default", Name: "host-1"}, true},
		"assigned elsewhere":     {status.Host{Namespace: "prod", Name: "host-1", MachineID: "one"}, true},
		"of another namespace":   {status.Host{Namespace: "prod", Name: "host-1"}, false},
		"another one, elsewhere": {status.Host{Namespace: "prod", Name: "host-1", MachineID: "two"}, false},
		"another one in place":   {status.Host{Namespace: "default", Name: "host-1", MachineID: "two"}, false},
	} {
		rows := hostRows(local, []status.Host{c.host}, true)
		if len(rows) != 1 || (rows[0].PID == 4711) != c.joined || (rows[0].Sandbox == "on") != c.joined {
			t.Errorf("%s: %+v", name, rows)
		}
	}
}

func TestExitCodeOfAShellIsPassedOn(t *testing.T) {
	if code, silent := ExitCode(&ExitError{Code: 7}); code != 7 || !silent {
		t.Errorf("got %d, %t", code, silent)
	}
	if code, silent := ExitCode(errors.New("x")); code != 1 || silent {
		t.Errorf("got %d, %t", code, silent)
	}
}

// writes keeps each write for itself.
type writes []string

func (w *writes) Write(p []byte) (int, error) {
	*w = append(*w, string(p))
	return len(p), nil
}

// Errors about arguments and flags name them, and say where names come from.
func TestUsageErrors(t *testing.T) {
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"approve"}, []string{"CLUSTER|RUN is missing", "cluster get`", "lifecycle explain CLUSTER`"}},
		{[]string{"lifecycle", "explain"}, []string{"CLUSTER is missing: kubectl slipway lifecycle explain CLUSTER", "cluster get` shows each CLUSTER"}},
		{[]string{"lifecycle", "logs", "run-1"}, []string{"STEP is missing: kubectl slipway lifecycle logs RUN STEP"}},
		{[]string{"host", "approve"}, []string{"HOST... is missing", "host list` shows each HOST"}},
		{[]string{"bundle", "remove"}, []string{"bundle list` shows each BUNDLE"}},
		{[]string{"cluster", "create"}, []string{"CLUSTER is missing"}},
		{[]string{"cluster", "create", "prod"}, []string{"--endpoint is missing: address of the control plane"}},
		{[]string{"cluster", "create", "prod", "too"}, []string{`"too" is too much: kubectl slipway cluster create CLUSTER`}},
		{[]string{"lifecycle", "skip", "run-1"}, []string{"--step is missing: step that", "--reason is missing: reason that"}},
		{[]string{"status", "extra"}, []string{`"extra" is too much: kubectl slipway status takes no argument`}},
		{[]string{"kubeconfig", "a", "b"}, []string{`"b" is too much: kubectl slipway kubeconfig CLUSTER`}},
		{[]string{"status", "-A", "-n", "default"}, []string{"--all-namespaces and --namespace exclude each other"}},
		{[]string{"openapi", "diff"}, []string{"OLD is missing"}},
	} {
		_, err := run(t, c.args...)
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v: %v, want %q", c.args, err, want)
			}
		}
	}
}

// One set of verbs works for each noun, and a slip leads to nothing that breaks.
func TestVerbs(t *testing.T) {
	root := plugin()
	for _, noun := range []string{"host", "hosts", "cluster", "clusters", "bundle", "bundles"} {
		for _, verbs := range [][]string{{"list", "ls", "get"}, {"remove", "rm", "delete"}} {
			first := ""
			for _, verb := range verbs {
				command, rest, err := root.Find([]string{noun, verb})
				if err != nil || len(rest) > 0 || first != "" && command.CommandPath() != first {
					t.Errorf("%s %s is %s, %v", noun, verb, command.CommandPath(), err)
				}
				first = command.CommandPath()
			}
		}
	}
	for _, slip := range [][]string{{"dwn"}, {"host", "remov"}, {"host", "rese"}, {"cluster", "delet"}, {"host", "cat"}, {"host", "evacuat"}} {
		if _, err := run(t, slip...); err == nil || strings.Contains(err.Error(), "did you mean") {
			t.Errorf("%v: %v", slip, err)
		}
	}
	if _, err := run(t, "statu"); err == nil || !strings.Contains(err.Error(), `did you mean "status"?`) {
		t.Errorf("%v", err)
	}
}

// The words in kubectl's order do the same, and help does not list them.
func TestKubectlsOrder(t *testing.T) {
	for words, flag := range map[string]string{"get hosts": "--selector", "get host": "--selector", "get cluster": "--sort-by", "get events": "--watch", "describe host": "--watch", "describe clusters": "--watch"} {
		if out, err := run(t, append(strings.Fields(words), "--help")...); err != nil || !strings.Contains(out, flag) {
			t.Errorf("%s: %v, %s", words, err, out)
		}
	}
	if out, err := run(t, "--help"); err != nil || strings.Contains(out, "\n  get ") {
		t.Errorf("%v: %s", err, out)
	}
}

// A shell that there is no completion for is an error that names those there are.
func TestCompletionOfAnotherShell(t *testing.T) {
	_, err := run(t, "completion", "tcsh")
	if err == nil || !strings.Contains(err.Error(), `unknown command "tcsh"`) || !strings.Contains(err.Error(), "bash, fish, powershell and zsh") {
		t.Errorf("completion tcsh: %v", err)
	}
}
