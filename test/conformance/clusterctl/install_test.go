package clusterctl

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/test/conformance/judge"
)

// managementCluster is an API server without providers.
func (u *user) managementCluster() {
	u.t.Helper()
	// clusterctl asks for the API of cert-manager before it installs a provider.
	dir, err := judge.Download(u.t.Context(), judge.CertManager)
	if err != nil {
		u.t.Fatal(err)
	}
	server := &envtest.Environment{CRDDirectoryPaths: []string{filepath.Join(dir, "deploy", "crds")}, ErrorIfCRDPathMissing: true}
	if _, err := testenv.StartServer(server); err != nil {
		u.t.Fatal(err)
	}
	u.t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			u.t.Error(err)
		}
	})
	u.kubeconfig = filepath.Join(u.home, "kubeconfig")
	if err := os.WriteFile(u.kubeconfig, server.KubeConfig, 0o600); err != nil {
		u.t.Fatal(err)
	}
}

// finishNamespace does the work of the namespace controller, which a bare API server
// does not have: clusterctl makes and deletes this namespace at each command that
// installs something.
func (u *user) finishNamespace() {
	u.t.Helper()
	const namespace = "cert-manager-test"
	u.kubectl(`{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "`+namespace+`"}, "spec": {"finalizers": []}}`,
		"replace", "--raw", "/api/v1/namespaces/"+namespace+"/finalize", "-f", "-")
}

// The life of a provider in a management cluster, step by step on one API server, in the namespace
// of the components and in one that the user chooses.
func TestInstallUpgradeDelete(t *testing.T) {
	begin(t, 1)
	for _, namespace := range []string{usualNamespace, "elsewhere"} {
		t.Run(namespace, func(t *testing.T) { installUpgradeDelete(t, namespace) })
	}
}

// usualNamespace is that of the components.
const usualNamespace = "slipway-system"

func installUpgradeDelete(t *testing.T, namespace string) {
	u := newUser(t, shared.repository)
	u.managementCluster()

	u.configureAsTold()
	again := []string{"init", "--infrastructure", "slipway:" + oldVersion}
	if namespace == usualNamespace {
		u.follow("Install", "")
	} else {
		u.env = []string{"CLUSTER_TOPOLOGY=true", "EXP_RUNTIME_SDK=true"}
		u.run("init") // the flag holds for all that a run installs
		u.finishNamespace()
		again = append(again, "--target-namespace", namespace)
		u.run(again...)
	}
	u.finishNamespace()
	u.assertProvider(namespace, ownRegistry, oldVersion)
	u.assertGates("ClusterTopology=true", "RuntimeSDK=true")
	for _, object := range []string{
		"deployment/slipway-controller-manager", "poddisruptionbudget/slipway-controller-manager", "certificate/slipway-serving-cert",
		"role/slipway-leader-election", "crd/hosts.infrastructure.slipway.dev", "clusterrole/slipway-capi-aggregated",
	} {
		u.kubectl("", "-n", namespace, "get", object)
	}
	if got := u.kubectl("", "get", "crd", "hosts.infrastructure.slipway.dev", "-o", "jsonpath={.spec.conversion.strategy}"); got != "Webhook" {
		t.Errorf("the CRD of Hosts converts by %q", got)
	}

	// again, it is left as it is; a second one is refused
	u.run(again...)
	u.finishNamespace()
	u.refused("there is already an instance of the \"infrastructure-slipway\" provider", "init", "--infrastructure", "slipway:"+oldVersion, "--target-namespace", "another")

	if plan := u.follow("Upgrade", "plan"); !strings.Contains(plan, newVersion) {
		t.Errorf("clusterctl plans no upgrade to %s:\n%s", newVersion, plan)
	}
	u.storeHost()
	u.env = append(u.env, "SLIPWAY_MANAGER_SECRETS_BINDING=RoleBinding")
	u.kubectl("", "create", "rolebinding", secretsBinding, "-n", "default", "--clusterrole", secretsBinding, "--serviceaccount", namespace+":slipway-manager")
	u.assertSecrets(namespace, true)
	u.follow("Upgrade", "apply", "VERSION", newVersion, usualNamespace, namespace)
	u.assertProvider(namespace, ownRegistry, newVersion)
	u.assertKept()
	u.assertSecrets(namespace, false)

	u.follow("Remove the provider", "")
	for _, kinds := range []string{"deployment,service,role,rolebinding,serviceaccount,certificate", "clusterrole,clusterrolebinding,validatingadmissionpolicy,mutatingwebhookconfiguration,validatingwebhookconfiguration"} {
		if left := u.kubectl("", "-n", namespace, "get", kinds, "-l", "cluster.x-k8s.io/provider=infrastructure-slipway", "-o", "name"); strings.TrimSpace(left) != "" {
			t.Errorf("after its removal there is still %s", left)
		}
	}
	u.kubectl("", "get", "crd", "hosts.infrastructure.slipway.dev")
}

// Registries of the manager's image: of the components, and of the guide's configuration.
const (
	registry    = "ghcr.io/slipway-dev"
	ownRegistry = "registry.example.com/slipway"
)

// configureAsTold gives clusterctl the configuration of the guide, beside upstream's providers.
func (u *user) configureAsTold() {
	u.t.Helper()
	var own, told map[string]any
	data, err := os.ReadFile(u.config())
	if err == nil {
		err = errors.Join(yaml.Unmarshal(data, &own), yaml.Unmarshal([]byte(strings.ReplaceAll(shared.guide.config, "/srv/clusterctl", shared.repository)), &told))
	}
	if err != nil {
		u.t.Fatal(err)
	}
	providers, _ := own["providers"].([]any)
	providers = slices.DeleteFunc(providers, func(p any) bool { return p.(map[string]any)["name"] == "slipway" })
	toldProviders, _ := told["providers"].([]any)
	told["providers"] = append(providers, toldProviders...)
	told["cert-manager"] = own["cert-manager"]
	if data, err = yaml.Marshal(told); err != nil {
		u.t.Fatal(err)
	}
	u.configure(string(data))
}

// assertGates checks the feature gates of core.
func (u *user) assertGates(gates ...string) {
	u.t.Helper()
	args := u.kubectl("", "-n", "capi-system", "get", "deployment", "capi-controller-manager", "-o", "jsonpath={.spec.template.spec.containers[*].args}")
	for _, gate := range gates {
		if !strings.Contains(args, gate) {
			u.t.Errorf("core runs without %s: %s", gate, args)
		}
	}
}

// storeHost makes a claimed Host.
func (u *user) storeHost() {
	u.t.Helper()
	u.kubectl(`{"apiVersion": "infrastructure.slipway.dev/v1beta2", "kind": "Host", "metadata": {"name": "h1", "namespace": "default"},
		"spec": {"hostID": "id", "claimGeneration": 7, "claim": {"machineName": "m1", "clusterName": "c1", "claimID": "claim-1"}}}`, "create", "-f", "-")
}

// assertKept checks that nothing of the Host is lost. Objects have only ever been stored
// in v1beta2, so that none is to be migrated; clusterctl does it for no provider.
func (u *user) assertKept() {
	u.t.Helper()
	if got := u.kubectl("", "get", "crd", "hosts.infrastructure.slipway.dev", "-o", "jsonpath={.status.storedVersions}"); got != `["v1beta2"]` {
		u.t.Errorf("Hosts are stored in %s", got)
	}
	if got := u.kubectl("", "-n", "default", "get", "host", "h1", "-o", "jsonpath={.spec.claim.claimID} {.spec.claimGeneration} {.spec.hostID}"); got != "claim-1 7 id" {
		u.t.Errorf("after the upgrade the Host has %q", got)
	}
}

// secretsBinding binds the manager to what it does with Secrets.
const secretsBinding = "slipway-manager-secrets"

// assertSecrets checks whether the manager may read Secrets in all namespaces. That it may in
// its own and where an administrator granted it stays.
func (u *user) assertSecrets(own string, everywhere bool) {
	u.t.Helper()
	for namespace, want := range map[string]bool{"default": true, own: true, "kube-system": everywhere} {
		review := `{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {"user": "system:serviceaccount:` + own + `:slipway-manager",
			"resourceAttributes": {"namespace": "` + namespace + `", "verb": "get", "resource": "secrets"}}}`
		// The API server learns of bindings by a watch of its own.
		poll.True(u.t, fmt.Sprintf("the manager may get Secrets in %s: %t", namespace, want), func() bool {
			return u.kubectl(review, "create", "-f", "-", "-o", "jsonpath={.status.allowed}") == strconv.FormatBool(want)
		})
	}
}

func (u *user) assertProvider(namespace, registry, version string) {
	u.t.Helper()
	if got := u.kubectl("", "-n", namespace, "get", "provider", "infrastructure-slipway", "-o", "jsonpath={.version}"); got != version {
		u.t.Errorf("clusterctl's inventory has version %q, want %s", got, version)
	}
	want := registry + "/slipway-manager:" + version
	got := u.kubectl("", "-n", namespace, "get", "deployment", "slipway-controller-manager", "-o", "jsonpath={.spec.template.spec.containers[*].image}")
	if !strings.HasPrefix(got, want+"@sha256:") {
		u.t.Errorf("the Deployment runs %q, want %s by its digest", got, want)
	}
}

// A contract that core does not know, or a series that metadata does not have, must
// not be installed.
func TestWrongContract(t *testing.T) {
	begin(t, 1)
	for name, tc := range map[string]struct{ old, changed, want string }{
		"contract": {"contract: v1beta2", "contract: v1alpha3", "v1alpha3"},
		"series":   {"minor: 1", "minor: 7", "invalid provider metadata"},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUser(t, spoiled(t, "metadata.yaml", tc.old, tc.changed))
			u.managementCluster()
			u.refused(tc.want, "init", "--infrastructure", "slipway:"+oldVersion)
		})
	}
}
