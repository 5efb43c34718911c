package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/change"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// follow has the agents of a namespace go where their Hosts say.
func follow(t *testing.T, namespace string) {
	t.Helper()
	poll.Repeat(t, func(ctx context.Context) {
		list := &infrav1.HostList{}
		_ = env.Client.List(ctx, list, client.InNamespace(namespace))
		for i := range list.Items {
			there := &infrav1.Host{}
			if h := &list.Items[i]; h.Spec.AssignedNamespace != "" && env.Client.Get(ctx, client.ObjectKey{Namespace: h.Spec.AssignedNamespace, Name: h.Name}, there) == nil {
				conditions.Set(there, metav1.Condition{Type: infrav1.AgentConnectedCondition, Status: metav1.ConditionTrue, Reason: infrav1.HostHeartbeatFreshReason})
				there.Status.BootID = "boot"
				_ = env.Client.Status().Update(ctx, there)
			}
		}
	})
}

// Free hosts go to another namespace by name; one that cannot stops no other, and the same
// command goes on after a time-out.
func TestAssignHosts(t *testing.T) {
	kubeconfig := as(t, "", "")
	from, to := env.Namespace(t), env.Namespace(t)
	for _, name := range []string{"h1", "h2", "h3"} {
		testenv.NewHost(t, env.Client, from, name, time.Now())
	}
	claimed := host(from, "h4", "r1")
	claimed.Spec.Claim = &infrav1.HostClaim{MachineName: "m", ClusterName: "c", ClaimID: "id"}
	create(t, claimed)
	assign := func(args ...string) (string, error) {
		return run(t, append([]string{"host", "assign", "-n", from, "--to", to, "--kubeconfig", kubeconfig}, args...)...)
	}
	completed, err := run(t, "__complete", "host", "assign", "-n", from, "--kubeconfig", kubeconfig, "h2", "")
	if names := strings.Fields(completed); err != nil || !slices.Contains(names, "h1") || !slices.Contains(names, "h3") || slices.Contains(names, "h2") || slices.Contains(names, "h4") {
		t.Errorf("completion: %v\n%s", err, completed)
	}
	if completed, err = run(t, "__complete", "host", "assign", "--kubeconfig", kubeconfig, "--to", ""); err != nil || !slices.Contains(strings.Fields(completed), to) {
		t.Errorf("completion: %v\n%s", err, completed)
	}
	out, err := assign("h1", "--timeout", "1s")
	if err == nil || !strings.Contains(err.Error(), "host h1: not in namespace "+to+" within 1s: it waits for its agent") || out != "" {
		t.Errorf("got %v\n%s", err, out)
	}
	if code, silent := ExitCode(err); code != 1 || silent {
		t.Errorf("exit code %d", code)
	}
	follow(t, from)
	out, err = assign("h1", "h4", "h2")
	if err == nil || !strings.Contains(err.Error(), "host h4: HostMachine m of Cluster c has the Host") {
		t.Errorf("got %v", err)
	}
	for _, want := range []string{"NAMESPACE", to + "  h1    Assigned", to + "  h2    Assigned"} {
		if !strings.Contains(out, want) {
			t.Errorf("does not show %q:\n%s", want, out)
		}
	}
	if out, err = assign("h3", "-o", "name"); err != nil || out != "host.infrastructure.slipway.dev/h3\n" {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = assign("h1", "-o", "json")
	var results []change.Assigned
	if err != nil || json.Unmarshal([]byte(out), &results) != nil || !slices.Equal(results, []change.Assigned{{Namespace: to, Name: "h1", State: change.StateUnchanged}}) {
		t.Errorf("%v\n%s", err, out)
	}
	for want, args := range map[string][]string{
		"HOST... is missing": {}, "--timeout: want a positive duration": {"h1", "--timeout", "0s"},
		"is the one that the hosts are in": {"h1", "--to", from},
	} {
		if out, err := assign(args...); err == nil || !strings.Contains(err.Error(), want) || out != "" {
			t.Errorf("%q: %v\n%s", args, err, out)
		}
	}
	if _, err := run(t, "host", "assign", "h1", "-n", from, "--kubeconfig", kubeconfig); err == nil || !strings.Contains(err.Error(), "--to is missing") {
		t.Errorf("got %v", err)
	}
}

// What is waited for is told meanwhile, and what right is missing with how to get it.
func TestAssignTells(t *testing.T) {
	kubeconfig := as(t, "", "")
	from, to := env.Namespace(t), env.Namespace(t)
	testenv.NewHost(t, env.Client, from, "h1", time.Now())
	root, progress := plugin(), &bytes.Buffer{}
	root.SetOut(&bytes.Buffer{})
	root.SetErr(progress)
	root.SetArgs([]string{"host", "assign", "h1", "-n", from, "--to", to, "--timeout", "1s", "--kubeconfig", kubeconfig})
	if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(progress.String(), "   0s  h1: waits for its agent to go over to Host "+to+"/h1\n") {
		t.Errorf("%v\n%s", err, progress)
	}
	kubeconfig = as(t, "dora", "")
	testenv.NewHost(t, env.Client, from, "h2", time.Now())
	for namespace, verbs := range map[string][]string{from: {"get", "patch"}, to: {"get"}} {
		env.GrantIn(t, "dora", namespace, rbacv1.PolicyRule{Verbs: verbs, APIGroups: []string{infrav1.GroupVersion.Group}, Resources: []string{"hosts"}})
	}
	poll.Until(t, "the API server learns of the bindings", func() error {
		_, err := run(t, "host", "assign", "h2", "-n", from, "--to", to, "--kubeconfig", kubeconfig)
		for _, want := range []string{"it takes the verbs create and order on hosts in namespace " + to, `user "dora" may not create hosts.infrastructure.slipway.dev in namespace ` + to, "kubectl create role slipway-create -n " + to} {
			if err == nil || !strings.Contains(err.Error(), want) {
				return fmt.Errorf("got %w, want %q", err, want)
			}
		}
		return nil
	})
}
