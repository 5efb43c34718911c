package providercheck_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/providercheck"
)

// innocent is a change of the good release that clusterctl, the API server and Cluster API accept.
type innocent struct {
	name, file, old, changed string
	// quiet says that not even a warning is right.
	quiet bool
}

// before adds documents to the components, in front of the ServiceAccount.
func before(documents ...string) (old, changed string) {
	old = "apiVersion: v1\nkind: ServiceAccount"
	return old, strings.Join(documents, "") + old
}

func added(name string, quiet bool, documents ...string) innocent {
	old, changed := before(documents...)
	return innocent{name: name, file: components, old: old, changed: changed, quiet: quiet}
}

// object is one of the components, with the provider's label.
func object(apiVersion, kind, more string) string {
	return fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: foo, labels: {cluster.x-k8s.io/provider: infrastructure-foo}}\n%s---\n", apiVersion, kind, more)
}

// ownKind is a CRD that Cluster API never reads.
func ownKind(kind, labels string) string {
	plural := strings.ToLower(kind) + "s"
	return fmt.Sprintf(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[2]s.infrastructure.foo.com, labels: {cluster.x-k8s.io/provider: infrastructure-foo%[3]s}}
spec:
  group: infrastructure.foo.com
  scope: Cluster
  names: {kind: %[1]s, listKind: %[1]sList, plural: %[2]s}
  versions: [{name: v1alpha1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
---
`, kind, plural, labels)
}

var innocents = []innocent{
	added("kinds without namespaces", true, object("networking.k8s.io/v1", "IngressClass", ""), object("storage.k8s.io/v1", "CSIDriver", "spec: {}\n"),
		object("flowcontrol.apiserver.k8s.io/v1", "FlowSchema", "spec: {}\n"), object("node.k8s.io/v1", "RuntimeClass", "handler: a\n"),
		object("resource.k8s.io/v1", "DeviceClass", "spec: {}\n")),
	added("a kind of another project", true, object("cert-manager.io/v1", "ClusterIssuer", "spec: {}\n"), object("operator.example.com/v1", "Tenant", "")),
	added("a label of a contract on the provider's own kind", false, ownKind("FooImage", ", cluster.x-k8s.io/v1beta2: v1beta2")),
	added("a kind that ends like a bootstrap config", true, ownKind("FooNetworkConfig", ""), ownKind("FooNetworkConfigTemplate", "")),
	added("a kind that ends like a control plane", true, ownKind("FooControlPlane", ""), ownKind("FooControlPlaneTemplate", "")),
	added("a second kind that ends like a cluster", true, ownKind("FooStorageCluster", "")),
	added("a second kind that ends like a machine", true, ownKind("FooBaseMachine", "")),
	added("a Certificate of an issuer of another project", true,
		strings.Replace(object("cert-manager.io/v1", "Certificate", "spec: {secretName: s, issuerRef: {name: a, kind: Issuer, group: pca.example.com}}\n"), "name: foo,", "name: foo, namespace: foo-system,", 1)),
	added("a webhook in the Internet", true, object("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "webhooks: [{name: a.foo.com, clientConfig: {url: https://foo.com}}]\n")),
	added("documents of comments, and empty ones", true, "# a comment\n---\n---\n--- # more\n# and more\n---\n"),
	added("a second Deployment", true, strings.Replace(object("apps/v1", "Deployment",
		"spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: proxy, image: registry.foo.com/team/proxy:v1}]}}}\n"), "name: foo,", "name: foo, namespace: foo-system,", 1)),
	{
		name: "the CA of the cluster", file: components, old: "serviceAccountName: foo-manager", quiet: true,
		changed: "serviceAccountName: foo-manager\n      volumes: [{name: ca, projected: {sources: [{configMap: {name: kube-root-ca.crt}}, {serviceAccountToken: {path: t}}]}}]",
	},
	{name: "an optional Secret", file: components, old: "serviceAccountName: foo-manager", changed: "serviceAccountName: foo-manager\n      volumes: [{name: a, secret: {secretName: a, optional: true}}]", quiet: true},
	{name: "a name that the user gives", file: components, old: "serviceAccountName: foo-manager", changed: "serviceAccountName: foo-manager\n      volumes: [{name: a, secret: {secretName: \"${FOO_SECRET}\"}}]", quiet: true},
	{name: "an image that the user gives", file: components, old: "image: registry.foo.com/team/manager:v0.1.0", changed: "image: \"${FOO_IMAGE}\"", quiet: true},
	{name: "an image of Docker Hub", file: components, old: "registry.foo.com/team/manager", changed: "docker.io/foo/manager", quiet: true},
	{name: "octal modes of files", file: components, old: "serviceAccountName: foo-manager", changed: "serviceAccountName: foo-manager\n      volumes: [{name: a, emptyDir: {}}, {name: ca, configMap: {name: kube-root-ca.crt, defaultMode: 0400}}]", quiet: true},
	{name: "a right to lead in the own namespace", file: components, old: "    resources: [leases]\n    verbs: [create, get, update]\n", changed: "    resources: [leases]\n    verbs: [\"*\"]\n", quiet: true},
	{name: "a conversion webhook of a kind with one version", file: components, old: "  scope: Namespaced\n", quiet: true,
		changed: "  scope: Namespaced\n  conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {service: {name: w, namespace: foo-system}}}}\n"},
	{name: "an older version in the list of a contract", file: components, old: "    cluster.x-k8s.io/v1beta2: v1\n", changed: "    cluster.x-k8s.io/v1beta2: v1_v1alpha1\n"},
	{name: "fields that are preserved", file: components, old: "              properties:\n                controlPlaneEndpoint:", quiet: true,
		changed: "              x-kubernetes-preserve-unknown-fields: true\n              properties:\n                other:"},
	{name: "an endpoint that others give", file: components, old: "controlPlaneEndpoint:", changed: "endpoint:"},
	{name: "variables with spaces", file: template, old: "${FOO_ENDPOINT}", changed: "${ FOO_ENDPOINT }"},
	{name: "an asset of a CI", file: "release-assets.yaml", changed: "jobs:\n  build:\n    steps: [{run: 'echo ${{ github.sha }}'}]\n"},
	{name: "an asset that is no object", file: "notes.yaml", changed: "- just\n- a list\n"},
	{name: "an alternative components file", file: "infrastructure-components-supervisor.yaml", changed: object("v1", "Namespace", "")},
	{name: "components for another tool", file: "operator-components.yaml", changed: "kind: ["},
	{name: "a reference of the provider's own", file: template, old: "  controlPlaneEndpoint:", changed: "  templateRef: {kind: FooImageTemplate, name: base, namespace: images}\n  ref: {kind: Secret, name: b}\n  controlPlaneEndpoint:", quiet: true},
	{name: "a reference to what the user has", file: template, old: "kind: FooCluster\n    name: \"${CLUSTER_NAME}\"", changed: "kind: FooCluster\n    name: \"${FOO_CLUSTER}\"", quiet: true},
	{name: "an object with another namespace", file: template, old: "kind: KubeadmControlPlane\nmetadata:\n", changed: "kind: KubeadmControlPlane\nmetadata:\n  namespace: default\n"},
	{name: "two Clusters", file: template, old: "---\n", changed: "---\napiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata: {name: \"${CLUSTER_NAME}-edge\"}\nspec: {}\n---\n", quiet: true},
	{name: "a Cluster of another project", file: template, old: "---\n", changed: "---\napiVersion: postgresql.cnpg.io/v1\nkind: Cluster\nmetadata: {name: db}\nspec: {}\n---\n", quiet: true},
	{name: "a class that is a variable", file: topology, old: "name: quick", changed: "name: '${FOO_CLASS}'", quiet: true},
	{name: "a worker class that is a variable", file: topology, old: "    version:", changed: "    workers: {machineDeployments: [{class: \"${FOO_WORKERS}\", name: a}]}\n    version:", quiet: true},
	{name: "a class file whose class is a variable", file: "clusterclass-free.yaml", changed: "apiVersion: cluster.x-k8s.io/v1beta2\nkind: ClusterClass\nmetadata: {name: \"${FOO_CLASS}\"}\nspec: {}\n"},
	{name: "a class that names its namespace", file: class, old: "      name: quick\n---", changed: "      name: quick\n      namespace: ${NAMESPACE}\n---"},
	{name: "an anchor and an alias", file: template, old: "  controlPlaneEndpoint:", changed: "  a: &a {x: 1, w: \"no\"}\n  b: *a\n  c: {<<: *a, z: 2}\n  controlPlaneEndpoint:", quiet: true},
	{name: "a path of Windows", file: template, old: "  controlPlaneEndpoint:", changed: "  a: 'C:\\k\\$${dir}\\kubelet.exe'\n  b: \"C:\\\\k\"\n  controlPlaneEndpoint:", quiet: true},
	{name: "a script of a shell", file: template, old: "  controlPlaneEndpoint:", changed: "  script: |\n    for i in 1 2; do echo $i $${i#a} $(id -u) \"$@\" $?; done\n  controlPlaneEndpoint:", quiet: true},
	{name: "a date, a time and a version", file: template, old: "  controlPlaneEndpoint:", changed: "  a: 2026-12-01\n  b: 12:30:45\n  c: 1.36.3\n  d: v1.30\n  e: 10.5\n  f: ~\n  g: 0x\n  controlPlaneEndpoint:", quiet: true},
	{name: "names of patches as strings", file: class, old: "spec:\n  infra", changed: patched(`"{a: {{ .builtin.cluster.name | quote }}, b: '{{ .builtin.cluster.name }}', c: {{ .builtin.cluster.name }}-x, d: {{ .x }}{{ .builtin.cluster.name }}, e: {{ .port }}}"`), quiet: true},
	{
		name: "a reference of v1beta1 into another namespace, which Cluster API drops", file: template,
		old: "v1beta2\nkind: Cluster\nmetadata:\n  name: \"${CLUSTER_NAME}\"\nspec:\n  infrastructureRef:\n    apiGroup: infrastructure.foo.com\n" +
			"    kind: FooCluster\n    name: \"${CLUSTER_NAME}\"\n  controlPlaneRef:\n    apiGroup: controlplane.cluster.x-k8s.io\n",
		changed: "v1beta1\nkind: Cluster\nmetadata:\n  name: \"${CLUSTER_NAME}\"\nspec:\n  infrastructureRef:\n    namespace: default\n    apiVersion: infrastructure.foo.com/v1\n" +
			"    kind: FooCluster\n    name: \"${CLUSTER_NAME}\"\n  controlPlaneRef:\n    apiVersion: controlplane.cluster.x-k8s.io/v1beta1\n",
	},
	{
		name: "a control plane of another provider, with types of its own", file: template, old: "apiVersion: controlplane.cluster.x-k8s.io/v1beta2\nkind: KubeadmControlPlane\nmetadata:\n  name: \"${CLUSTER_NAME}\"\nspec:\n",
		changed: "apiVersion: controlplane.cluster.x-k8s.io/v1beta2\nkind: BarControlPlane\nmetadata:\n  name: \"${CLUSTER_NAME}\"\nspec:\n  machineTemplate: {infrastructureRef: {kind: FooCluster, name: \"${CLUSTER_NAME}\", apiVersion: infrastructure.foo.com/v1}}\n" +
			"---\napiVersion: controlplane.cluster.x-k8s.io/v1beta2\nkind: KubeadmControlPlane\nmetadata:\n  name: \"${CLUSTER_NAME}\"\nspec:\n",
	},
	{
		name: "a control plane of another group, which names a group", file: template, old: "apiVersion: controlplane.cluster.x-k8s.io/v1beta2\nkind: KubeadmControlPlane\nmetadata:\n  name: \"${CLUSTER_NAME}\"\nspec:\n",
		changed: "apiVersion: controlplane.bar.com/v1\nkind: BarControlPlane\nmetadata:\n  name: \"${CLUSTER_NAME}\"\nspec:\n  machineTemplate: {infrastructureRef: {kind: FooCluster, name: \"${CLUSTER_NAME}\", apiGroup: infrastructure.foo.com}}\n" +
			"---\napiVersion: controlplane.cluster.x-k8s.io/v1beta2\nkind: KubeadmControlPlane\nmetadata:\n  name: \"${CLUSTER_NAME}\"\nspec:\n",
	},
	{name: "a class in a namespace of the user's choice", file: topology, old: "    version:", changed: "    classNamespace: ${CLUSTER_CLASS_NAMESPACE:=\"\"}\n    version:"},
	{name: "a series that comes", file: metadata, old: "releaseSeries:\n", changed: "releaseSeries:\n  - {major: 0, minor: 9, contract: v1beta9}\n"},
}

// TestInnocents holds that nothing is an error that clusterctl, the API server and Cluster API accept;
// what a contract recommends may be a warning.
func TestInnocents(t *testing.T) {
	for _, i := range innocents {
		t.Run(i.name, func(t *testing.T) {
			t.Parallel()
			r, err := providercheck.Load(plant(t, violation{file: i.file, old: i.old, changed: i.changed}))
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range providercheck.Check(r) {
				if f.Level == providercheck.Must || i.quiet {
					t.Errorf("a false %s: %s:%d %s: %s [%s]", f.Level, f.File, f.Line, f.Object, f.Message, f.Rule)
				}
			}
		})
	}
}

// TestWebhookWithAll holds that nothing is found of a webhook that has all it needs, also when its
// manager makes the certificate.
func TestWebhookWithAll(t *testing.T) {
	_, own, _ := strings.Cut(wired, "issuerRef: {name: foo}}\n---\n")
	own = strings.Replace(own, "  annotations: {cert-manager.io/inject-ca-from: foo-system/foo}\n", "", 1)
	for name, c := range map[string]struct{ documents, rights string }{
		"cert-manager":     {wired, ""},
		"the manager does": {own, "\n  - {apiGroups: [admissionregistration.k8s.io], resources: [validatingwebhookconfigurations], verbs: [get, list, watch, patch]}"},
	} {
		dir := plant(t, violation{file: components, old: "---\n", changed: "---\n" + c.documents})
		change(t, dir, components, "    verbs: [create, get, update]", "    verbs: [create, get, update]"+c.rights)
		change(t, dir, components, "serviceAccountName: foo-manager", "serviceAccountName: foo-manager\n      volumes: [{name: certs, secret: {secretName: foo-webhooks, optional: true}}]")
		r, err := providercheck.Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range providercheck.Check(r) {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// TestOneFaultIsToldOnce holds that a fault of a version which a CRD names for two contracts is found once.
func TestOneFaultIsToldOnce(t *testing.T) {
	dir := plant(t, violation{file: components, old: "port: {type: integer}", changed: "port: {type: string}"})
	change(t, dir, components, "    cluster.x-k8s.io/v1beta2: v1\n", "    cluster.x-k8s.io/v1beta2: v1\n    cluster.x-k8s.io/v1beta1: v1\n")
	r, err := providercheck.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if found := providercheck.Check(r); len(found) != 1 || found[0].Rule != "field-type" {
		t.Errorf("found %+v", found)
	}
}

// TestClassesOfOneVariable holds that two files may call their class by the same variable: users choose one of them.
func TestClassesOfOneVariable(t *testing.T) {
	dir := plant(t, violation{})
	for _, file := range []string{"clusterclass-a.yaml", "clusterclass-b.yaml"} {
		content := "apiVersion: cluster.x-k8s.io/v1beta2\nkind: ClusterClass\nmetadata: {name: \"${FOO_CLASS}\"}\nspec: {}\n"
		if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r, err := providercheck.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range providercheck.Check(r) {
		if f.Rule != "class-variables" {
			t.Errorf("%+v", f)
		}
	}
}

// TestClassInAnotherFileIsOneFault holds that a class which is in a file of another name is not missing, too.
func TestClassInAnotherFileIsOneFault(t *testing.T) {
	dir := plant(t, violation{})
	if err := os.Rename(filepath.Join(dir, class), filepath.Join(dir, "clusterclass-example.yaml")); err != nil {
		t.Fatal(err)
	}
	r, err := providercheck.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if found := providercheck.Check(r); len(found) != 1 || found[0].Rule != "class-name" {
		t.Errorf("found %+v", found)
	}
}

// TestLabelsAreToldOnce holds that one wrong label in kustomization.yaml is one finding.
func TestLabelsAreToldOnce(t *testing.T) {
	dir := plant(t, violation{})
	change(t, dir, components, "cluster.x-k8s.io/provider: infrastructure-foo", "cluster.x-k8s.io/provider: foo")
	r, err := providercheck.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if found := providercheck.Check(r); len(found) != 1 || !strings.Contains(found[0].Message, "objects") {
		t.Errorf("found %+v", found)
	}
}

// TestVersionsThatAreTheSame holds that versions need no conversion when their schemas differ in descriptions only, or in
// nothing; and that they do when a field would be lost.
func TestVersionsThatAreTheSame(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(good, components))
	if err != nil {
		t.Fatal(err)
	}
	_, versions, _ := strings.Cut(string(content), "  versions:\n")
	version, _, _ := strings.Cut(versions, "---\n")
	for port, want := range map[string]bool{
		"port: {type: integer}": false, "port: {type: integer, description: a port}": false, "port: {type: integer, minimum: 1}": true, "number: {type: integer}": true,
	} {
		older := strings.NewReplacer("name: v1", "name: v0", "storage: true", "storage: false", "port: {type: integer}", port).Replace(version)
		r, err := providercheck.Load(plant(t, violation{file: components, old: version, changed: version + older}))
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.ContainsFunc(providercheck.Check(r), func(f providercheck.Finding) bool { return f.Rule == "crd-conversion" }); got != want {
			t.Errorf("%s: found %t, want %t", port, got, want)
		}
	}
}

// TestUnreadableDocumentIsOneFault holds that references to objects of an unreadable document are no further faults.
func TestUnreadableDocumentIsOneFault(t *testing.T) {
	for _, file := range []string{template, topology, class} {
		content, err := os.ReadFile(filepath.Join(good, file))
		if err != nil {
			t.Fatal(err)
		}
		documents := strings.Split(string(content), "---\n")
		for i := range documents {
			broken := slices.Clone(documents)
			broken[i] += "x:\n\ty: z\n"
			dir := plant(t, violation{})
			if err := os.WriteFile(filepath.Join(dir, file), []byte(strings.Join(broken, "---\n")), 0o600); err != nil {
				t.Fatal(err)
			}
			r, err := providercheck.Load(dir)
			if err != nil {
				t.Fatal(err)
			}
			if found := providercheck.Check(r); len(found) != 1 || found[0].Rule != "file-readable" {
				t.Errorf("%s, document %d: found %+v", file, i, found)
			}
		}
	}
}

// TestOneCertificateIsToldOnce does the same for what two webhooks share.
func TestOneCertificateIsToldOnce(t *testing.T) {
	two := strings.Replace(wired, "webhooks: [", "webhooks: [{name: a.foo.com, clientConfig: {service: {name: foo-webhooks, namespace: foo-system}}}, ", 1)
	r, err := providercheck.Load(plant(t, violation{file: components, old: "---\n", changed: "---\n" + strings.Replace(two, "from: foo-system/foo", "from: foo-system/other", 1)}))
	if err != nil {
		t.Fatal(err)
	}
	if found := providercheck.Check(r); len(found) != 1 || found[0].Rule != "webhook-wiring" {
		t.Errorf("found %+v", found)
	}
}
