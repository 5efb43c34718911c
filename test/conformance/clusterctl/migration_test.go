package clusterctl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/test/conformance/judge"
	"github.com/slipway-dev/slipway/test/conformance/provider"
)

// finalVersion is the release after newVersion.
const finalVersion = "v0.3.0"

// stored are objects of all kinds with two versions, by resource: what a release that
// stored v1beta1 left behind. The spec is the same in both versions, and status is not.
var stored = []struct{ resource, kind, spec, status, oldStatus string }{
	{
		"hosts", "Host", `{"hostID": "id", "claimGeneration": 7, "claim": {"machineName": "m1", "clusterName": "c1", "claimID": "claim-1"}}`,
		`{"bootID": "boot"}`, `{"bootID": "boot"}`,
	},
	{
		"hostclusters", "HostCluster", `{"controlPlaneEndpoint": {"host": "10.0.0.1", "port": 6443}, "endpoint": {"type": "External"}}`,
		`{"initialization": {"provisioned": true}, "failureDomains": [{"name": "a", "controlPlane": true}]}`,
		`{"ready": true, "failureDomains": {"a": {"controlPlane": true}}}`,
	},
	{"hostclustertemplates", "HostClusterTemplate", `{"template": {"spec": {"endpoint": {"type": "External"}}}}`, "", ""},
	{
		"hostmachines", "HostMachine", `{"providerID": "slipway://default/h/c", "claimID": "claim-1"}`,
		`{"initialization": {"provisioned": true}, "failureDomain": "a"}`, `{"ready": true, "failureDomain": "a"}`,
	},
	{
		"hostmachinetemplates", "HostMachineTemplate", `{"template": {"spec": {"resetPolicy": "Full"}}}`,
		`{"capacity": {"cpu": "2"}}`, `{"capacity": {"cpu": "2"}}`,
	},
	{
		"hostmachinepools", "HostMachinePool", `{"providerIDList": ["slipway://default/h/c"]}`,
		`{"ready": true, "initialization": {"provisioned": true}, "replicas": 1, "readyReplicas": 1}`,
		`{"ready": true, "replicas": 1, "readyReplicas": 1}`,
	},
	{"hostmachinepooltemplates", "HostMachinePoolTemplate", `{"template": {"spec": {"resetPolicy": "Full"}}}`, "", ""},
}

// A release that stored v1beta1 is upgraded to ours, which stores v1beta2, and that to
// one without v1beta1. clusterctl leaves objects as they are stored; the manager has to
// bring them along, or the API server refuses to drop the version.
func TestUpgradeMigratesObjects(t *testing.T) {
	begin(t, 1)
	m := installed(t, migrating(t))
	m.finishNamespace()
	kit := judge.NewKit()
	// The controllers have nothing to do with these objects: so nobody else writes them.
	flags := []string{"--watch-filter=nothing"}
	slipway, err := provider.Slipway(t.Context(), kit, "slipway", []provider.Contract{provider.V1Beta1, provider.V1Beta2}, flags...)
	if err != nil {
		t.Fatal(err)
	}
	m.start(kit, slipway)
	m.store()
	m.awaitStored("v1beta1")
	before := m.content()

	m.upgrade(newVersion, slipway)
	m.awaitStored("v1beta2")
	m.assertContent(before)
	m.assertManagedFields("v1beta1", true)

	m.upgrade(finalVersion, slipway)
	m.awaitMigration()
	m.assertContent(before)
	m.assertManagedFields("v1beta1", false)
}

// upgrade has clusterctl install a release and starts its manager.
func (m *management) upgrade(version string, slipway judge.Subject) {
	m.t.Helper()
	// The CRDs call the manager as they do in a cluster: clusterctl merges its own into
	// what is there, and a conversion by URL and Service is refused.
	const service = `{"spec": {"conversion": {"webhook": {"clientConfig": {"url": null, "caBundle": null,
		"service": {"name": "slipway-webhook-service", "namespace": "slipway-system", "path": "/convert"}}}}}}`
	for _, o := range stored {
		m.kubectl("", "patch", "crd", o.resource+"."+infrav1.GroupVersion.Group, "--type=merge", "-p", service)
	}
	m.run("upgrade", "apply", "--infrastructure", "slipway-system/slipway:"+version)
	m.assertProvider(usualNamespace, registry, version)
	if err := m.Replace(m.t.Context(), slipway); err != nil {
		m.t.Fatal(err)
	}
}

// migrating is a repository whose old release stores v1beta1, and whose final one does
// not have it any more.
func migrating(t *testing.T) string {
	t.Helper()
	repository := t.TempDir()
	if err := os.CopyFS(repository, os.DirFS(shared.repository)); err != nil {
		t.Fatal(err)
	}
	ours := filepath.Join(repository, "infrastructure-slipway")
	if err := os.CopyFS(filepath.Join(ours, finalVersion), os.DirFS(filepath.Join(ours, newVersion))); err != nil {
		t.Fatal(err)
	}
	changeVersions(t, filepath.Join(ours, oldVersion), func(versions []any) []any {
		for _, version := range versions {
			if version, ok := version.(map[string]any); ok {
				version["storage"] = version["name"] == "v1beta1"
			}
		}
		return versions
	})
	final := filepath.Join(ours, finalVersion)
	changeVersions(t, final, func(versions []any) []any { return versions[1:] })
	rewrite(t, filepath.Join(final, "infrastructure-components.yaml"), func(text string) string {
		return strings.ReplaceAll(text, "slipway-manager:"+newVersion, "slipway-manager:"+finalVersion)
	})
	rewrite(t, filepath.Join(final, "metadata.yaml"), func(text string) string {
		return text + "  - major: 0\n    minor: 3\n    contract: v1beta2\n"
	})
	return repository
}

func rewrite(t *testing.T, path string, change func(string) string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(change(string(data))), 0o600); err != nil {
		t.Fatal(err)
	}
}

// changeVersions rewrites the versions of the CRDs with two of them in a release.
func changeVersions(t *testing.T, release string, change func([]any) []any) {
	t.Helper()
	rewrite(t, filepath.Join(release, "infrastructure-components.yaml"), func(text string) string {
		objects, err := judge.Decode([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		var changed []string
		for _, object := range objects {
			versions, _, _ := unstructured.NestedSlice(object.Object, "spec", "versions")
			if len(versions) == 2 {
				err = unstructured.SetNestedSlice(object.Object, change(versions), "spec", "versions")
			}
			document, failed := yaml.Marshal(object.Object)
			if err = errors.Join(err, failed); err != nil {
				t.Fatal(err)
			}
			changed = append(changed, string(document))
		}
		return strings.Join(changed, "---\n")
	})
}

// store makes an object of each kind through each version, with a status.
func (m *management) store() {
	m.t.Helper()
	if err := client.IgnoreAlreadyExists(m.Client.Create(m.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: team}})); err != nil {
		m.t.Fatal(err)
	}
	for _, o := range stored {
		for version, status := range map[string]string{"v1beta1": o.oldStatus, "v1beta2": o.status} {
			object := &unstructured.Unstructured{}
			text := fmt.Sprintf(`{"apiVersion": "%s/%s", "kind": "%s", "metadata": {"name": "through-%s", "namespace": "%s"}, "spec": %s}`,
				infrav1.GroupVersion.Group, version, o.kind, version, team, o.spec)
			if err := json.Unmarshal([]byte(text), &object.Object); err != nil {
				m.t.Fatal(err)
			}
			m.create(object)
			if status == "" {
				continue
			}
			patch := client.RawPatch("application/merge-patch+json", []byte(`{"status": `+status+`}`))
			if err := m.Client.Status().Patch(m.t.Context(), object, patch); err != nil {
				m.t.Fatal(err)
			}
		}
	}
}

// awaitStored waits until etcd has all objects in one version, and until the CRDs say
// that there is no other.
func (m *management) awaitStored(version string) {
	m.t.Helper()
	eventually(m.t, "all is stored in "+version, func(ctx context.Context) error {
		for _, o := range stored {
			objects, err := m.Stored(ctx, "/registry/"+infrav1.GroupVersion.Group+"/"+o.resource+"/")
			if err != nil {
				return err
			}
			if len(objects) != 2 {
				return fmt.Errorf("etcd has %d %s", len(objects), o.resource)
			}
			for key, data := range objects {
				header := metav1.TypeMeta{}
				if err := json.Unmarshal(data, &header); err != nil {
					return err
				}
				if header.APIVersion != infrav1.GroupVersion.Group+"/"+version {
					return fmt.Errorf("%s is stored as %s", key, header.APIVersion)
				}
			}
			if crd := m.crd(ctx, o.resource); len(crd.Status.StoredVersions) != 1 || crd.Status.StoredVersions[0] != version {
				return fmt.Errorf("CRD %s: stored versions %v", crd.Name, crd.Status.StoredVersions)
			}
		}
		return nil
	})
}

// awaitMigration waits until the manager is done with all CRDs as they are.
func (m *management) awaitMigration() {
	m.t.Helper()
	eventually(m.t, "the CRDs are migrated", func(ctx context.Context) error {
		var errs []error
		for _, o := range stored {
			crd := m.crd(ctx, o.resource)
			if got := crd.Annotations[clusterv1.CRDMigrationObservedGenerationAnnotation]; got != fmt.Sprint(crd.Generation) {
				errs = append(errs, fmt.Errorf("CRD %s: generation %d, migrated %q", crd.Name, crd.Generation, got))
			}
		}
		return errors.Join(errs...)
	})
}

func (m *management) crd(ctx context.Context, resource string) *apiextensionsv1.CustomResourceDefinition {
	m.t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := m.Client.Get(ctx, client.ObjectKey{Name: resource + "." + infrav1.GroupVersion.Group}, crd); err != nil {
		m.t.Fatal(err)
	}
	return crd
}

// each calls visit with all objects of store as v1beta2.
func (m *management) each(visit func(name string, o *unstructured.Unstructured)) {
	m.t.Helper()
	for _, o := range stored {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(infrav1.GroupVersion.WithKind(o.kind + "List"))
		eventually(m.t, "the API server serves "+o.resource, func(ctx context.Context) error {
			return m.Client.List(ctx, list, client.InNamespace(team))
		})
		for i := range list.Items {
			visit(o.resource+"/"+list.Items[i].GetName(), &list.Items[i])
		}
	}
}

// content is all that a user or a controller wrote, with UIDs and generations.
func (m *management) content() map[string]string {
	m.t.Helper()
	content := map[string]string{}
	m.each(func(name string, o *unstructured.Unstructured) {
		o.SetResourceVersion("")
		o.SetManagedFields(nil)
		data, err := json.Marshal(o)
		if err != nil {
			m.t.Fatal(err)
		}
		content[name] = string(data)
	})
	return content
}

func (m *management) assertContent(want map[string]string) {
	m.t.Helper()
	if got := m.content(); !maps.Equal(got, want) {
		for name := range want {
			if got[name] != want[name] {
				m.t.Errorf("%s was\n%s\nand is\n%s", name, want[name], got[name])
			}
		}
	}
}

// assertManagedFields checks whether the version still stands in managedFields.
func (m *management) assertManagedFields(version string, want bool) {
	m.t.Helper()
	found := false
	m.each(func(name string, o *unstructured.Unstructured) {
		if len(o.GetManagedFields()) == 0 {
			m.t.Errorf("%s has no managedFields: the next apply would not know what it owns", name)
		}
		for _, entry := range o.GetManagedFields() {
			if strings.HasSuffix(entry.APIVersion, "/"+version) {
				found = true
				if !want {
					m.t.Errorf("%s: managedFields of %s in %s", name, entry.Manager, entry.APIVersion)
				}
			}
		}
	})
	if want && !found {
		m.t.Errorf("no object has managedFields in %s", version)
	}
}
