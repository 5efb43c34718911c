package e2e

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/internal/testenv/level"
	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/hooktest"
	"github.com/slipway-dev/slipway/test/live"
)

// policedCluster has no network of its own: a policy brings it.
var policedCluster = `
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: prod, namespace: default, labels: {tier: prod}}
spec:
  clusterNetwork:
    pods: {cidrBlocks: [10.244.0.0/16]}
    services: {cidrBlocks: [10.96.0.0/16]}
  topology:
    classRef: {name: slipway-local}
    version: ` + older + `
    controlPlane: {replicas: 1}
    workers:
      machineDeployments: [{class: default-worker, name: md, replicas: 1}]
    variables: [{name: controlPlaneEndpointHost, value: 10.88.0.200}]
`

// never is a window of an hour half a year away, whenever the test runs.
func never() string {
	return fmt.Sprintf("0 3 1 %d *", time.Now().AddDate(0, 6, 0).Month())
}

// policies are those of the test: one for each part of the Cluster's life.
func policies() string {
	job := func(name, image string) string {
		return fmt.Sprintf(`{name: %s, job: {spec: {backoffLimit: 0, template: {spec: {restartPolicy: Never, tolerations: [{operator: Exists}],
            containers: [{name: check, image: %q, imagePullPolicy: Never, command: [/usr/local/bin/kube-proxy, --version]}]}}}}}`, name, image)
	}
	return fmt.Sprintf(`
apiVersion: lifecycle.slipway.dev/v1alpha1
kind: LifecyclePolicy
metadata: {name: create, namespace: default}
spec:
  clusterSelector: {matchLabels: {tier: prod}}
  hooks:
    - hook: BeforeClusterCreate
      steps:
        - {name: skew, expression: {expression: 'semver(cluster.spec.topology.version, true).isGreaterThan(semver("1.35.0"))'}}
        - {name: ticket, timeoutSeconds: 1, expression: {expression: '"ticket" in cluster.metadata.?annotations.orValue({})', message: a ticket}}
        - {name: tell, retry: {limit: 0}, webhook: {url: "https://127.0.0.1:1", secretName: lost}}
        - {name: go, approval: {message: a new cluster for production}}
    - hook: AfterControlPlaneInitialized
      steps:
        - {name: network, apply: {sources: [{kind: ConfigMap, name: flannel}]}}
        - {name: nodes, wait: {apiVersion: v1, kind: Node, expression: 'objects.exists(n, n.status.conditions.exists(c, c.type == "Ready" && c.status == "True"))'}}
---
apiVersion: lifecycle.slipway.dev/v1alpha1
kind: LifecyclePolicy
metadata: {name: upgrade, namespace: default}
spec:
  matchCondition: cluster.metadata.name == "prod"
  hooks:
    - hook: BeforeClusterUpgrade
      steps:
        - {name: window, window: {schedule: %q, durationSeconds: 3600}}
    - hook: AfterControlPlaneUpgrade
      steps:
        - %s
    - hook: AfterClusterUpgrade
      steps:
        - %s
---
apiVersion: lifecycle.slipway.dev/v1alpha1
kind: LifecyclePolicy
metadata: {name: delete, namespace: default}
spec:
  hooks:
    - hook: BeforeClusterDelete
      steps:
        - {name: go, approval: {}}
        - {name: save, export: {resources: [{apiVersion: v1, kind: ConfigMap, namespaces: [default]}]}}
`, never(), job("smoke", "registry.k8s.io/kube-proxy:"+older), job("smoke", "registry.k8s.io/kube-proxy:"+current))
}

// explanation mirrors what `slipway lifecycle explain -o json` promises.
type explanation struct {
	Runs []struct {
		Name, Hook, Phase, Message string
		Blocks                     bool
		Steps                      []struct {
			Name, State string
			Until       time.Time
		}
		Decisions []struct{ Type, Step, By, Reason string }
	}
}

// lifecycle is a plane with policies, and what was called on it.
type lifecycle struct {
	*plane
	*recorder
}

// run is what explain tells of the only run of a hook; its name is empty when there
// is none.
func (l *lifecycle) explain(hook string) (run struct {
	Name, Phase, Message string
	Blocks               bool
	Ended                map[string]time.Time
	States               map[string]string
	Decisions            []string
}) {
	l.t.Helper()
	var e explanation
	if err := json.Unmarshal([]byte(l.must("lifecycle", "explain", "prod", "-o", "json")), &e); err != nil {
		l.t.Fatal(err)
	}
	for _, r := range e.Runs {
		if r.Hook != hook {
			continue
		}
		if run.Name != "" {
			l.t.Fatalf("several runs of %s: %s and %s", hook, run.Name, r.Name)
		}
		run.Name, run.Phase, run.Message, run.Blocks, run.Ended = r.Name, r.Phase, r.Message, r.Blocks, map[string]time.Time{}
		run.States = map[string]string{}
		for _, s := range r.Steps {
			run.Ended[s.Name], run.States[s.Name] = s.Until, s.State
		}
		for _, d := range r.Decisions {
			run.Decisions = append(run.Decisions, strings.Join([]string{d.Type, d.Step, d.By, d.Reason}, " "))
		}
	}
	return run
}

// blockedAt waits until a hook's run holds the cluster back, with that in its message.
func (l *lifecycle) blockedAt(hook, message string) {
	l.t.Helper()
	l.eventually(hook+" holds the cluster back", func(s status) string {
		run := l.explain(hook)
		if !run.Blocks || !strings.Contains(run.Message, message) {
			return fmt.Sprintf("the run is %+v, want it to block with %q", run, message)
		}
		if len(s.Clusters) != 1 || !strings.Contains(strings.Join(s.Clusters[0].Waiting, "\n"), message) {
			return fmt.Sprintf("status says %+v", s.Clusters)
		}
		return ""
	})
}

// passedAt waits until a hook's run has succeeded.
func (l *lifecycle) passedAt(hook string) {
	l.t.Helper()
	l.eventually(hook+" has passed", func(status) string { return differs("Succeeded", l.explain(hook).Phase) })
}

// TestLifecycle is the life of a Cluster under policies: nothing is made before what
// failed is retried or skipped, and the approval, the network comes by policy, the upgrade waits for its window, Jobs run
// after the control plane and after all workers, and it is deleted when its archive
// exists. Cluster API's calls are those of the guide, in its order.
func TestLifecycle(t *testing.T) {
	level.Deep(t)
	l := &lifecycle{newPlane(t, 3), &recorder{}}
	t.Cleanup(func() {
		if t.Failed() {
			out, err := l.kubectl("", "get", "lifecyclepolicy,lifecyclerun", "-o", "yaml")
			t.Logf("hooks were called in the order\n%s\npolicies and runs (%v)\n%s", strings.Join(l.order(), "\n"), err, out)
			out, err = l.kubectl("", "get", "secret", "-L", "lifecycle.slipway.dev/run,lifecycle.slipway.dev/step")
			t.Logf("Secrets (%v)\n%s", err, out)
		}
	})
	beside := hooktest.Start(t, extension.Options{}, l.register)
	l.up("--fast", "--no-cluster", "--hosts", "3")
	l.apply("", localClass(t)+"---"+extensionConfig("recorder", beside.URL, beside.CA.PEM, ""))
	for _, name := range []string{"recorder", "slipway-lifecycle"} {
		l.mustKubectl("", "wait", "--for=condition=Discovered", "extensionconfig/"+name, live.Waits())
	}
	l.mustKubectl("", "create", "configmap", "flannel", "--from-file", filepath.Join("..", "..", "templates", "local", "flannel.yaml"))
	l.apply("", policies())
	l.apply("", policedCluster)
	server := watched(t, l.plane)

	for _, part := range []struct {
		name string
		run  func(*testing.T, *lifecycle)
	}{
		{"created upon approval, with its network", createdUponApproval},
		{"upgraded in its window, with Jobs in between", upgradedInWindow},
		// The runs go with the cluster.
		{"seen on dashboards", func(t *testing.T, _ *lifecycle) { server.AssertData(t, dashboards, "lifecycle", "runtime-sdk") }},
		{"deleted once it is exported", deletedOnceExported},
	} {
		if !t.Run(part.name, func(t *testing.T) {
			p := *l.plane
			p.t = t
			part.run(t, &lifecycle{&p, l.recorder})
		}) {
			return
		}
	}
	if got := l.order(); !slices.Equal(got, guideOrder) {
		t.Errorf("the hooks were called in the order\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(guideOrder, "\n"))
	}
	for _, call := range l.calls {
		if call.cluster.Name != "prod" || call.cluster.Namespace != "default" || call.cluster.Spec.Topology.ClassRef.Name != "slipway-local" {
			t.Errorf("%s was called with the Cluster %+v", call.hook, call.cluster)
		}
	}
}

// decidedUpon has two steps fail, and goes on with the one and without the other. What
// has to be typed is what the commands say and complete.
func decidedUpon(t *testing.T, l *lifecycle) {
	l.blockedAt("BeforeClusterCreate", "retry=ticket")
	run := l.explain("BeforeClusterCreate")
	if run.Phase != "Failed" || run.States["ticket"] != "Failed" {
		t.Errorf("explain -o json tells %+v", run)
	}
	text := l.must("lifecycle", "explain", "prod")
	for _, tells := range []string{"FAILED, holds the cluster back", "ticket  expression  Failed", "not done within 1s", "retry=ticket", "skip=ticket"} {
		if !strings.Contains(text, tells) {
			t.Errorf("explain does not tell %q:\n%s", tells, text)
		}
	}
	l.completes("prod", "lifecycle", "explain", "")
	l.completes(run.Name, "lifecycle", "retry", "")
	l.completes("ticket", "lifecycle", "retry", run.Name, "--step", "")

	l.mustKubectl("", "annotate", "cluster", "prod", "ticket=4711")
	l.must("lifecycle", "retry", run.Name, "--step", "ticket", "--reason", "there is one")
	l.blockedAt("BeforeClusterCreate", "there is no Secret default/lost")
	l.completes("tell", "lifecycle", "skip", run.Name, "--step", "")
	l.refused([]string{"lifecycle", "skip", run.Name, "--step", "ticket", "--reason", "none"}, `step "ticket" has ended already; the run is at step "tell"`)
	l.must("lifecycle", "skip", run.Name, "--step", "tell", "--reason", "they know")
}

// completes checks the only name that the shell is offered, beside flags.
func (l *lifecycle) completes(want string, args ...string) {
	l.t.Helper()
	var names []string
	for line := range strings.Lines(l.must(append([]string{"__complete"}, args...)...)) {
		if !strings.HasPrefix(line, "--") && !strings.HasPrefix(line, ":") {
			names = append(names, strings.TrimSpace(line))
		}
	}
	if !slices.Equal(names, []string{want}) {
		l.t.Errorf("%q is completed by %q, want %s", args, names, want)
	}
}

func createdUponApproval(t *testing.T, l *lifecycle) {
	decidedUpon(t, l)
	l.blockedAt("BeforeClusterCreate", "a new cluster for production")
	if got := l.mustKubectl("", "get", "cluster", "prod", "-o", "jsonpath={.spec.infrastructureRef.kind}"); got != "" {
		t.Errorf("the cluster was made before the approval: it has a %s", got)
	}
	l.must("approve", "prod", "--reason", "change 4711")
	l.passedAt("BeforeClusterCreate")
	if got := l.explain("BeforeClusterCreate").Decisions; !slices.Equal(got, []string{
		"Retry ticket kubernetes-admin there is one", "Skip tell kubernetes-admin they know", "Approve go kubernetes-admin change 4711",
	}) {
		t.Errorf("decisions: %q", got)
	}
	// Nodes are Ready only with a network.
	l.eventually("two nodes of "+older, all(readyNodes(2), nodesOf(older, 2)))
	l.passedAt("AfterControlPlaneInitialized")
	if got := l.mustKubectl("prod", "get", "daemonset", "-n", "kube-flannel", "-o", "jsonpath={.items[*].metadata.managedFields[*].manager}"); !strings.Contains(got, "slipway-lifecycle-create") {
		t.Errorf("the network is managed by %s", got)
	}
}

func upgradedInWindow(t *testing.T, l *lifecycle) {
	l.mustKubectl("", "patch", "cluster", "prod", "--type", "merge", "-p", `{"spec":{"topology":{"version":"`+current+`"}}}`)
	l.blockedAt("BeforeClusterUpgrade", "waits for the window")
	if got := l.mustKubectl("", "get", "kubeadmcontrolplane", "-o", "jsonpath={.items[*].spec.version}"); got != older {
		t.Errorf("the control plane was told to be %s before the window opened", got)
	}
	l.mustKubectl("", "patch", "lifecyclepolicy", "upgrade", "--type", "json", "-p",
		`[{"op":"replace","path":"/spec/hooks/0/steps/0/window/schedule","value":"* * * * *"}]`)
	l.passedAt("BeforeClusterUpgrade")
	l.eventually("two nodes of "+current, all(readyNodes(2), nodesOf(current, 2)))
	l.passedAt("AfterClusterUpgrade")

	// The Job after the control plane ended before the first worker of the new version
	// was made, and that after all of it began when no old one was left.
	worker, err := time.Parse(time.RFC3339, l.mustKubectl("", "get", "machine", "-l", "cluster.x-k8s.io/deployment-name", "-o", "jsonpath={.items[0].metadata.creationTimestamp}"))
	if err != nil {
		t.Fatal(err)
	}
	between, after := l.explain("AfterControlPlaneUpgrade"), l.explain("AfterClusterUpgrade")
	if between.Ended["smoke"].After(worker) || !after.Ended["smoke"].After(worker) {
		t.Errorf("the Jobs ended at %s and %s, the new worker was made at %s", between.Ended["smoke"], after.Ended["smoke"], worker)
	}
	for run, version := range map[string]string{between.Name: older, after.Name: current} {
		if log := l.must("lifecycle", "logs", run, "smoke"); !strings.Contains(log, "Kubernetes "+version) {
			t.Errorf("the log of %s: %q", run, log)
		}
	}
}

func deletedOnceExported(t *testing.T, l *lifecycle) {
	l.mustKubectl("prod", "create", "configmap", "precious", "--from-literal=key=value")
	l.mustKubectl("", "delete", "cluster", "prod", "--wait=false")
	l.blockedAt("BeforeClusterDelete", "approval")
	if got := l.mustKubectl("", "get", "machine", "-o", "jsonpath={.items[*].metadata.deletionTimestamp}"); got != "" {
		t.Errorf("machines are being deleted before the export: %s", got)
	}
	l.must("approve", "prod")
	l.mustKubectl("", "wait", "--for=delete", "cluster/prod", live.Waits())
	file := filepath.Join(t.TempDir(), "prod.tar.gz")
	l.must("lifecycle", "export", "prod", "-f", file)
	if content := untar(t, file); !strings.Contains(content, "name: precious") || !strings.Contains(content, "key: value") {
		t.Errorf("the archive holds\n%s", content)
	}
}

// untar returns all files of an archive, one after the other.
func untar(t *testing.T, file string) string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for archive := tar.NewReader(zip); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return all.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&all, "# %s\n", header.Name)
		if _, err := io.Copy(&all, archive); err != nil {
			t.Fatal(err)
		}
	}
}
