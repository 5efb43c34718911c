package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/clusters"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
)

// clusterUser runs `slipway cluster` in a namespace of its own.
type clusterUser struct {
	*testing.T
	kubeconfig, namespace string
}

func newClusterUser(t *testing.T) *clusterUser {
	t.Helper()
	kubeconfig := as(t, "", "")
	return &clusterUser{t, kubeconfig, env.Namespace(t)}
}

func (u *clusterUser) args(args ...string) []string {
	return append([]string{"cluster", args[0], "-n", u.namespace, "--kubeconfig", u.kubeconfig}, args[1:]...)
}

func (u *clusterUser) run(args ...string) (string, error) {
	u.Helper()
	return run(u.T, u.args(args...)...)
}

func (u *clusterUser) must(args ...string) string {
	u.Helper()
	out, err := u.run(args...)
	if err != nil {
		u.Fatalf("%v: %v\n%s", args, err, out)
	}
	return out
}

// completed are the words that a shell offers for the last argument.
func (u *clusterUser) completed(args ...string) string {
	u.Helper()
	out, err := run(u.T, append([]string{"__complete"}, u.args(args...)...)...)
	if err != nil {
		u.Fatal(err)
	}
	return out
}

func (u *clusterUser) refused(want string, args ...string) {
	u.Helper()
	if out, err := u.run(args...); err == nil || !strings.Contains(err.Error(), want) {
		u.Errorf("%v: %v, want %q\n%s", args, err, want, out)
	}
}

func (u *clusterUser) cluster(name string) *clusterv1.Cluster {
	u.Helper()
	c := &clusterv1.Cluster{}
	if err := env.Client.Get(u.Context(), client.ObjectKey{Namespace: u.namespace, Name: name}, c); err != nil {
		u.Fatal(err)
	}
	return c
}

// count is how many objects of a kind the namespace has.
func (u *clusterUser) count(gvk schema.GroupVersionKind) int {
	u.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvk)
	if err := env.Client.List(u.Context(), list, client.InNamespace(u.namespace)); err != nil {
		u.Fatal(err)
	}
	return len(list.Items)
}

var (
	classKind = clusterv1.GroupVersion.WithKind("ClusterClass")
	checkKind = clusterv1.GroupVersion.WithKind("MachineHealthCheck")
	setKind   = schema.GroupVersionKind{Group: "addons.cluster.x-k8s.io", Version: "v1beta2", Kind: "ClusterResourceSet"}
)

// TestClusterCreate holds that a cluster is made with all that goes with it, and that what is
// printed for it is what is made.
func TestClusterCreate(t *testing.T) {
	u := newClusterUser(t)
	u.refused("no host in namespace "+u.namespace, "create", "prod", "--endpoint", "192.0.2.100")
	h := host(u.namespace, "h1", "r1")
	create(t, h)
	h.Status.Inventory.KubernetesVersions = []string{"v1.35.4", "v1.36.10", "v1.36.9"}
	if err := env.Client.Status().Update(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	if completed := u.completed("create", "prod", "--kubernetes-version", ""); !strings.HasPrefix(completed, "v1.36.10\nv1.36.9\nv1.35.4\n") {
		t.Errorf("--kubernetes-version is completed with %q", completed)
	}
	args := []string{"create", "prod", "--endpoint", "192.0.2.100", "--control-planes", "3", "--pool", "a=2", "--set", "workerHostLabels={disk: ssd}"}
	printed := u.must(append(args, "--dry-run")...)
	if u.count(classKind) != 0 {
		t.Error("a dry run has created something")
	}
	for _, want := range []string{"kind: ClusterClass", "kind: ClusterResourceSet", "kind: MachineHealthCheck", "kind: Cluster\n", "version: v1.36.10", "slipway.dev/cni: flannel"} {
		if !strings.Contains(printed, want) {
			t.Errorf("the dry run lacks %q", want)
		}
	}
	if strings.Contains(printed, "status:\n") || strings.Contains(printed, "creationTimestamp") {
		t.Errorf("the dry run prints what a server fills in:\n%s", printed)
	}
	var list struct{ Items []map[string]any }
	if err := json.Unmarshal([]byte(u.must(append(args, "--dry-run", "-o", "json")...)), &list); err != nil || len(list.Items) != strings.Count(printed, "\nkind: ") {
		t.Errorf("as JSON: %v, %d objects of %d", err, len(list.Items), strings.Count(printed, "\nkind: "))
	}
	u.refused("--set: ClusterClass slipway has no variable bogus; it has ", append(args, "--set", "bogus=1", "--dry-run")...)
	u.refused(`--dry-run "all": want none or client or server`, append(args, "--dry-run=all")...)
	if checked := u.must(append(args, "--dry-run=server")...); !strings.Contains(checked, "kind: Cluster\n") || u.count(classKind) != 0 {
		t.Errorf("the server's dry run made %d classes:\n%s", u.count(classKind), checked)
	}
	out := u.must(args...)
	note, again := &bytes.Buffer{}, plugin()
	again.SetOut(&bytes.Buffer{})
	again.SetErr(note)
	again.SetArgs(u.args(append(args, "--dry-run")...))
	if err := again.ExecuteContext(t.Context()); err != nil || !strings.HasPrefix(note.String(), "There is a Cluster prod in namespace "+u.namespace+" already") {
		t.Errorf("the dry run of a Cluster that exists: %v\n%s", err, note)
	}
	u.refused("there is a Cluster prod", append(args, "--dry-run=server")...)
	u.refused("has no variable bogus", "create", "other", "--endpoint", "192.0.2.101", "--set", "bogus=1")
	if !strings.Contains(out, "prod") || u.count(classKind) != 1 || u.count(setKind) != 1 || u.count(checkKind) != 1 {
		t.Errorf("made %d classes, %d resource sets, %d health checks:\n%s", u.count(classKind), u.count(setKind), u.count(checkKind), out)
	}
	c := u.cluster("prod")
	if top := c.Spec.Topology; top.Version != "v1.36.10" || *top.ControlPlane.Replicas != 3 || len(top.Workers.MachinePools) != 1 || *top.Workers.MachinePools[0].Replicas != 2 {
		t.Errorf("made %+v", top)
	}
	u.refused("there is a Cluster prod in namespace "+u.namespace+" already", args...)
	// what was left by one that was interrupted is no hindrance, nor is a class that is there
	if err := env.Client.Delete(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if out := u.must(append(args, "-o", "name")...); out != "cluster.cluster.x-k8s.io/prod\n" {
		t.Errorf("again: %q", out)
	}
	local := &clusterv1.ClusterClass{}
	if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: u.namespace, Name: clusters.DefaultClass}, local); err != nil {
		t.Fatal(err)
	}
	create(t, &clusterv1.ClusterClass{ObjectMeta: metav1.ObjectMeta{Namespace: u.namespace, Name: clusters.LocalClass}, Spec: local.Spec})
	u.must("create", "local", "--endpoint", "192.0.2.101")
	if got := u.cluster("local").Spec.Topology.ClassRef.Name; got != clusters.LocalClass {
		t.Errorf("beside the class of local hosts the default is %s", got)
	}
	u.refused("there is no ClusterClass other in namespace "+u.namespace+"; there are: slipway", "create", "b", "--endpoint", "192.0.2.100", "--class", "other")
}

func TestClusterNetworkOfAFile(t *testing.T) {
	u := newClusterUser(t)
	file := filepath.Join(t.TempDir(), "cni.yaml")
	u.refused("no such file or directory; give flannel, none", "create", "a", "--endpoint", "192.0.2.100", "--kubernetes-version", "v1.36.3", "--cni", file)
	if err := os.WriteFile(file, []byte("kind: X\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	u.must("create", "a", "--endpoint", "192.0.2.100", "--kubernetes-version", "v1.36.3", "--cni", file, "--pod-cidr", "10.8.0.0/16")
	manifest := &corev1.ConfigMap{}
	if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: u.namespace, Name: "a-cni"}, manifest); err != nil || manifest.Data["cni.yaml"] != "kind: X\n" {
		t.Errorf("%v: %v", err, manifest.Data)
	}
	u.must("create", "b", "--endpoint", "192.0.2.101", "--kubernetes-version", "v1.36.3", "--cni", "none")
	if u.count(setKind) != 1 || len(u.cluster("b").Labels) != 0 {
		t.Errorf("none: %d resource sets, labels %v", u.count(setKind), u.cluster("b").Labels)
	}
}

// reach writes what Cluster API would once all is there.
func (u *clusterUser) reach(name string) {
	u.Helper()
	c := u.cluster(name)
	before := c.DeepCopy()
	desired := *c.Spec.Topology.Workers.MachinePools[0].Replicas
	c.Status.ObservedGeneration = c.Generation
	c.Status.Conditions = nil
	for _, condition := range []string{clusterv1.ClusterTopologyReconciledCondition, clusterv1.ClusterAvailableCondition} {
		c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{Type: condition, Status: metav1.ConditionTrue, ObservedGeneration: c.Generation, Reason: "R", LastTransitionTime: metav1.Now()})
	}
	c.Status.ControlPlane = &clusterv1.ClusterControlPlaneStatus{DesiredReplicas: ptr.To[int32](1), ReadyReplicas: ptr.To[int32](1), UpToDateReplicas: ptr.To[int32](1)}
	c.Status.Workers = &clusterv1.WorkersStatus{DesiredReplicas: &desired, ReadyReplicas: &desired, UpToDateReplicas: &desired}
	if err := env.Client.Status().Patch(u.Context(), c, client.MergeFrom(before)); err != nil {
		u.Fatal(err)
	}
}

// TestClusterLife holds that what a cluster is asked for is changed and waited for, and that
// the wait ends only once it is there.
func TestClusterLife(t *testing.T) {
	u := newClusterUser(t)
	u.must("create", "c", "--endpoint", "192.0.2.100", "--kubernetes-version", "v1.36.3", "--pool", "pool=1", "--cni", "none")
	u.reach("c")
	if out := u.must("get", "c", "-o", "wide"); !strings.Contains(out, "slipway  v1.36.3  1/1            1/1") || !strings.Contains(out, "Available") {
		t.Errorf("get shows\n%s", out)
	}
	u.refused("there is no Cluster d in namespace", "get", "d")
	u.refused("there is no db; the topology has pool", "scale", "c", "--pool", "db=1")
	if completed := u.completed("scale", "c", "--pool", ""); !strings.HasPrefix(completed, "pool=\n") {
		t.Errorf("--pool is completed with %q", completed)
	}
	u.refused("say what to change", "scale", "c")
	u.refused("is not newer than v1.36.3", "upgrade", "c", "--kubernetes-version", "v1.36.3")
	u.refused("not reached within 1s", "scale", "c", "--pool", "pool=4", "--wait", "--timeout", "1s")

	done, waits := make(chan string, 1), make(chan struct{}, 100)
	told, tell := io.Pipe()
	go func() {
		for lines := bufio.NewScanner(told); lines.Scan(); {
			if strings.Contains(lines.Text(), "Cluster API has not seen the change yet") {
				waits <- struct{}{}
			}
		}
	}()
	go func() {
		var out bytes.Buffer
		command := plugin()
		command.SetOut(&out)
		command.SetErr(tell)
		command.SetArgs(u.args("upgrade", "c", "--kubernetes-version", "v1.36.4", "--wait", "-o", "json"))
		if err := command.ExecuteContext(context.WithoutCancel(t.Context())); err != nil {
			out.WriteString(err.Error())
		}
		_ = tell.Close()
		done <- out.String()
	}()
	poll.True(t, "the version is changed", func() bool { return u.cluster("c").Spec.Topology.Version == "v1.36.4" })
	select {
	case out := <-done:
		t.Fatalf("the wait ended before the cluster was there: %s", out)
	case <-poll.Context(t).Done():
		t.Fatal("the command does not wait")
	case <-waits:
	}
	u.reach("c")
	var states []clusters.State
	if out := <-done; json.Unmarshal([]byte(out), &states) != nil || len(states) != 1 || !states[0].Reached || states[0].Version != "v1.36.4" || states[0].Workers.Desired != 4 {
		t.Errorf("waited: %s", out)
	}
}

// TestClusterDelete holds that nothing is deleted unless its name is typed or --yes is given.
func TestClusterDelete(t *testing.T) {
	u := newClusterUser(t)
	u.must("create", "c", "--endpoint", "192.0.2.100", "--kubernetes-version", "v1.36.3", "--cni", "none")
	type1 := func(text string) error {
		command := plugin()
		command.SetIn(strings.NewReader(text))
		command.SetOut(&bytes.Buffer{})
		command.SetErr(&bytes.Buffer{})
		command.SetArgs(u.args("delete", "c", "--wait"))
		return command.ExecuteContext(t.Context())
	}
	for _, typed := range []string{"", "y\n", "yes\n", "C\n"} {
		if err := type1(typed); err == nil || !strings.Contains(err.Error(), "nothing was deleted") {
			t.Errorf("%q: %v", typed, err)
		}
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	command := plugin()
	command.SetIn(null)
	command.SetArgs(u.args("delete", "c"))
	if err := command.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "give --yes") {
		t.Errorf("without a terminal: %v", err)
	}
	u.cluster("c")
	if err := type1("c\n"); err != nil {
		t.Error(err)
	}
	if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: u.namespace, Name: "c"}, &clusterv1.Cluster{}); !apierrors.IsNotFound(err) {
		t.Errorf("it is still there: %v", err)
	}
	u.refused("there is no Cluster c", "delete", "c", "--yes")
}
