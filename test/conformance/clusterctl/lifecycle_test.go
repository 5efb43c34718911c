package clusterctl

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// engine is the lifecycle engine in the words of clusterctl.
const (
	engine          = "slipway-lifecycle"
	engineNamespace = "slipway-lifecycle-system"
)

// The life of the lifecycle engine in a management cluster: a runtime extension
// provider. Its registration is no component, so that clusterctl, which deletes all
// components when it upgrades, does not let hooks pass meanwhile.
func TestLifecycleEngine(t *testing.T) {
	begin(t, 1)
	u := newUser(t, shared.repository)
	u.managementCluster()

	u.run("init", "--infrastructure", "slipway:"+oldVersion, "--runtime-extension", engine+":"+oldVersion)
	u.finishNamespace()
	u.assertEngine(oldVersion)
	for _, object := range []string{
		"poddisruptionbudget/slipway-lifecycle-controller-manager", "certificate/slipway-lifecycle-serving-cert",
		"service/slipway-lifecycle-extension-service", "role/slipway-lifecycle-leader-election", "clusterrole/slipway-lifecycle-decider",
	} {
		u.kubectl("", "-n", engineNamespace, "get", object)
	}
	// clusterctl move looks at runs as parts of their Clusters, and takes all policies.
	for crd, label := range map[string]string{
		"lifecycleruns.lifecycle.slipway.dev":     `clusterctl\.cluster\.x-k8s\.io`,
		"lifecyclepolicies.lifecycle.slipway.dev": `clusterctl\.cluster\.x-k8s\.io/move`,
	} {
		if labels := u.kubectl("", "get", "crd", crd, "-o", "jsonpath={.metadata.labels}"); !strings.Contains(labels, `"`+strings.ReplaceAll(label, `\`, "")+`":""`) {
			t.Errorf("CRD %s has the labels %s", crd, labels)
		}
	}
	for _, kind := range []string{"mutatingwebhookconfiguration", "validatingwebhookconfiguration"} {
		hooks := u.kubectl("", "get", kind, "-l", "cluster.x-k8s.io/provider=runtime-extension-"+engine, "-o", "jsonpath={.items[*].webhooks[*].clientConfig.service.name}")
		if strings.TrimSpace(hooks) == "" || strings.Trim(hooks, " \n") != strings.TrimSpace(strings.Repeat("slipway-lifecycle-webhook-service ", len(strings.Fields(hooks)))) {
			t.Errorf("%s calls %q", kind, hooks)
		}
	}

	u.run("upgrade", "apply", "--runtime-extension", engineNamespace+"/"+engine+":"+newVersion)
	u.assertEngine(newVersion)
	u.run("delete", "--runtime-extension", engine)
	u.kubectl("", "get", "crd", "lifecyclepolicies.lifecycle.slipway.dev")

	registration, err := os.ReadFile(filepath.Join(shared.repository, "..", "assets", "slipway-lifecycle-extensionconfig.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	// The webhook of core is not there to answer: what the schema says must do.
	u.kubectl("", "delete", "mutatingwebhookconfiguration,validatingwebhookconfiguration", "--all")
	u.kubectl(string(registration), "apply", "--validate=strict", "--dry-run=server", "-f", "-")
}

func (u *user) assertEngine(version string) {
	u.t.Helper()
	if got := u.kubectl("", "-n", engineNamespace, "get", "provider", "runtime-extension-"+engine, "-o", "jsonpath={.version}"); got != version {
		u.t.Errorf("clusterctl's inventory has version %q, want %s", got, version)
	}
	want := "ghcr.io/slipway-dev/slipway-lifecycle:" + version
	got := u.kubectl("", "-n", engineNamespace, "get", "deployment", "slipway-lifecycle-controller-manager", "-o", "jsonpath={.spec.template.spec.containers[*].image}")
	if !strings.HasPrefix(got, want+"@sha256:") {
		u.t.Errorf("the Deployment runs %q, want %s by its digest", got, want)
	}
}
