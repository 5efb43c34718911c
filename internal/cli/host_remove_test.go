package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/provision"
)

// What is wrong with a command line is said before anybody is asked anything.
func TestHostRemoveRefuses(t *testing.T) {
	kubeconfig := as(t, "", "")
	t.Setenv("SSH_AUTH_SOCK", "")
	t.Setenv("HOME", t.TempDir())
	for _, tc := range []struct{ args, want string }{
		{"", "HOST... is missing"},
		{"a --parallel 0", "--parallel: want at least 1"},
		{"a --timeout 0s", "--timeout: want"},
		{"a --no-ssh --ssh b", "--no-ssh and --ssh exclude each other"},
		{"a", "there is no key to log in with"},
	} {
		out, err := run(t, append(append([]string{"host", "remove"}, strings.Fields(tc.args)...), "--kubeconfig", kubeconfig)...)
		if err == nil || !strings.Contains(err.Error(), tc.want) || out != "" {
			t.Errorf("%s: %v\n%s", tc.args, err, out)
		}
	}
}

func TestDepartures(t *testing.T) {
	got, err := departuresOf([]string{"a", "b", "a"}, []string{"b=root@192.0.2.2:2222"}, "ann")
	want := []provision.Departure{{Name: "a"}, {Name: "b", Address: "root@192.0.2.2:2222"}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err = departuresOf([]string{"a"}, []string{"2001:db8::1"}, "ann"); err != nil || got[0].Address != "ann@[2001:db8::1]:22" {
		t.Errorf("%+v, %v", got, err)
	}
	for want, machines := range map[string][]string{
		"say of which: HOST=192.0.2.1":                         {"192.0.2.1"},
		"c is none of the hosts to remove: a, b":               {"c=192.0.2.1"},
		"host a has two machines, x@192.0.2.1:22 and x@b.c:22": {"a=192.0.2.1", "a=b.c"},
		"want [user@]address":                                  {"a=-o x"},
	} {
		if _, err := departuresOf([]string{"a", "b"}, machines, "x"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", machines, err)
		}
	}
}
