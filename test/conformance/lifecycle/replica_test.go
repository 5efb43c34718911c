package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/internal/testenv/shared"
	sdkclient "github.com/slipway-dev/slipway/sdk/client"
	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooktest"
	"github.com/slipway-dev/slipway/test/logs"
)

// replica is slipway-lifecycle in a process of its own, which is started again as
// often as it was killed.
type replica struct {
	*effects
	t    *testing.T
	args []string
	env  []string
	log  string

	// extension and webhooks are host:port, ca is what signed the certificate of both.
	extension, webhooks string
	ca                  []byte
	caller              *sdkclient.Client

	process *exec.Cmd
	ended   chan struct{}
}

func newReplica(t *testing.T, namespace string, flags ...string) *replica {
	t.Helper()
	free, err := shared.FreePorts(2)
	if err != nil {
		t.Fatal(err)
	}
	dir, ca := t.TempDir(), hooktest.NewCA(t)
	ca.Files(dir, "tls")
	r := &replica{t: t, effects: &effects{}, log: filepath.Join(dir, "log"), ca: ca.PEM}
	r.kill = r.end
	r.extension, r.webhooks = net.JoinHostPort("127.0.0.1", strconv.Itoa(free[0])), net.JoinHostPort("127.0.0.1", strconv.Itoa(free[1]))
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, startProxy(t, all.account, namespace, r.effects).kubeconfig(t), 0o600); err != nil {
		t.Fatal(err)
	}
	r.env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	r.args = append([]string{
		"--cert-dir=" + dir, "--extension-address=" + r.extension, "--webhook-host=127.0.0.1", fmt.Sprintf("--webhook-port=%d", free[1]),
		"--diagnostics-address=0", "--health-addr=0", "--drain-delay=0s", "--insecure-hooks", "--webhook-allowed-networks=127.0.0.0/8",
		"--logging-format=json", "--v=4",
	}, flags...)
	t.Cleanup(func() {
		r.end()
		logs.Check(t, r.log)
		if t.Failed() {
			text, _ := os.ReadFile(r.log)
			t.Logf("log of the replica:\n%s", text[max(0, len(text)-8000):])
		}
	})
	return r
}

// start begins a life of the program.
func (r *replica) start() {
	r.t.Helper()
	log, err := os.OpenFile(r.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	process := exec.Command(all.program, r.args...) //nolint:noctx // it is killed by the test
	process.Env, process.Stdout, process.Stderr = r.env, log, log
	r.born()
	if err := process.Start(); err != nil {
		r.t.Fatal(err)
	}
	ended := make(chan struct{})
	r.process, r.ended = process, ended
	go func() {
		defer close(ended)
		_ = process.Wait()
	}()
}

// end is kill -9. It returns when the process is gone.
func (r *replica) end() {
	if r.process == nil {
		return
	}
	_ = r.process.Process.Kill()
	<-r.ended
}

// gone says whether the process has ended.
func (r *replica) gone() bool {
	select {
	case <-r.ended:
		return true
	default:
		return false
	}
}

// discover learns the handlers of the extension, as Cluster API does once.
func (r *replica) discover() error {
	r.t.Helper()
	if r.gone() {
		r.t.Fatal("the program has ended by itself")
	}
	catalog := hook.NewCatalog()
	if err := capi.AddToCatalog(catalog); err != nil {
		return err
	}
	var err error
	r.caller, _, err = hooktest.Discover(r.t.Context(), catalog, hooktest.Config("slipway-lifecycle", "https://"+r.extension, r.ca))
	return err
}

// passes is nil when the upgrade may begin.
func (r *replica) passes(ctx context.Context, cluster *clusterv1.Cluster) error {
	result, err := sdkclient.CallAll(ctx, r.caller, capi.BeforeClusterUpgrade, cluster, &hooksv1.BeforeClusterUpgradeRequest{
		Cluster: *cluster, FromKubernetesVersion: oldVersion, ToKubernetesVersion: newVersion,
	})
	if err != nil {
		return err
	}
	if result.Response.RetryAfterSeconds > 0 {
		return errors.New(result.Response.Message)
	}
	return nil
}
