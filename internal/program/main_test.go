package program

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	logsv1 "k8s.io/component-base/logs/api/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/slipway-dev/slipway/internal/version"
)

const kubeconfig = `{"apiVersion":"v1","kind":"Config","current-context":"c",
"clusters":[{"name":"k","cluster":{"server":"https://127.0.0.1:1"}}],"contexts":[{"name":"c","context":{"cluster":"k"}}]}`

func TestProgram(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		// runs is whether the program gets to run; out and err are parts of what it
		// prints and of its error.
		runs     bool
		out, err string
	}{
		"version":        {args: []string{"--version"}, out: version.Version},
		"help":           {args: []string{"--help"}},
		"no such flag":   {args: []string{"--size=3"}, err: "unknown flag: --size"},
		"no such format": {args: []string{"--logging-format=xml"}, err: `configure the log: format: Invalid value: "xml"`},
		"its own flag":   {args: []string{"--own-flag=3", "--logging-format=json"}, runs: true},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "kubeconfig")
			if err := os.WriteFile(file, []byte(kubeconfig), 0o600); err != nil {
				t.Fatal(err)
			}
			t.Setenv("KUBECONFIG", file)
			t.Cleanup(func() {
				if err := logsv1.ResetForTest(nil); err != nil {
					t.Error(err)
				}
			})
			own, ran := 0, false
			p := Program{
				Name:      "slipway-test",
				BindFlags: func(fs *pflag.FlagSet) { fs.IntVar(&own, "own-flag", own, "a flag") },
				Run: func(_ context.Context, config *rest.Config) error {
					ran = true
					if own != 3 || config.UserAgent != "slipway-test/"+version.Version || config.Host != "https://127.0.0.1:1" {
						t.Errorf("runs with --own-flag=%d as %q on %s", own, config.UserAgent, config.Host)
					}
					return nil
				},
			}
			var out bytes.Buffer
			err := p.execute(t.Context(), test.args, &out)
			switch {
			case test.err == "" && err != nil, test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)):
				t.Errorf("err = %v, want %q", err, test.err)
			case ran != test.runs:
				t.Errorf("ran = %t", ran)
			case strings.TrimSpace(out.String()) != test.out:
				t.Errorf("printed %q, want %q", out.String(), test.out)
			}
		})
	}
}

// TestErrorIsLogged holds that why a program ended is told in the format of its log.
func TestErrorIsLogged(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", file)
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	stderr := os.Stderr
	os.Stderr = log
	t.Cleanup(func() {
		os.Stderr = stderr
		_ = log.Close()
		if err := logsv1.ResetForTest(nil); err != nil {
			t.Error(err)
		}
	})
	p := Program{
		Name:      "slipway-test",
		BindFlags: func(*pflag.FlagSet) {},
		Run:       func(context.Context, *rest.Config) error { return errors.New("leader election lost") },
	}
	err = p.execute(t.Context(), []string{"--logging-format=json"}, io.Discard)
	if logged := (*loggedError)(nil); !errors.As(err, &logged) {
		t.Errorf("the error is %#v: it would be printed once more", err)
	}
	text, err := os.ReadFile(log.Name())
	var line struct{ Msg, Err, Program string }
	if err != nil || json.Unmarshal(text, &line) != nil || line.Err != "leader election lost" || line.Program != "slipway-test" {
		t.Errorf("the log has %q, %v", text, err)
	}
}

func TestLeaderElection(t *testing.T) {
	l := DefaultLeaderElection()
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	l.BindFlags(flags, "lead")
	if err := flags.Parse([]string{"--leader-elect", "--leader-election-namespace=ns", "--leader-elect-lease-duration=3s", "--leader-elect-renew-deadline=2s"}); err != nil {
		t.Fatal(err)
	}
	var o ctrl.Options
	l.ApplyLeaderElection(&o, "id")
	if !o.LeaderElection || o.LeaderElectionID != "id" || o.LeaderElectionNamespace != "ns" || !o.LeaderElectionReleaseOnCancel ||
		*o.LeaseDuration != 3*time.Second || *o.RenewDeadline != 2*time.Second || *o.RetryPeriod != 2*time.Second {
		t.Errorf("options = %+v", o)
	}
}
