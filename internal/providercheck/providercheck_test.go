package providercheck_test

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slipway-dev/slipway/internal/providercheck"
)

const good = "testdata/infrastructure-foo/v0.1.0"

const (
	components = "infrastructure-components.yaml"
	metadata   = "metadata.yaml"
	template   = "cluster-template.yaml"
	topology   = "cluster-template-topology.yaml"
	class      = "clusterclass-quick.yaml"
)

func TestGoodRelease(t *testing.T) {
	r, err := providercheck.Load(good)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range providercheck.Check(r) {
		t.Errorf("%+v", f)
	}
}

// violation is a change of the good release that breaks one rule.
type violation struct {
	rule string
	// file is changed by replacing the first old by changed; it is removed when both
	// are empty, and made when only old is.
	file, old, changed string
	// dir replaces infrastructure-foo/v0.1.0.
	dir string
	// when is the day of the check; today when empty.
	when string
	// ipam has an IPAM provider's components in place of the good release.
	ipam bool
}

var violations = []violation{
	{rule: "file-readable", file: template, old: "spec:", changed: "spec: ["},
	{rule: "file-readable", file: template, old: "${FOO_PORT:=6443}", changed: "${FOO_PORT:=6443"},
	{rule: "repository-version", dir: "infrastructure-foo/latest"},
	{rule: "repository-label", dir: "foo/v0.1.0"},
	{rule: "repository-label", dir: "infrastructure-Foo/v0.1.0"},
	{rule: "repository-label", dir: "infrastructure-" + strings.Repeat("f", 64) + "/v0.1.0"},
	{rule: "components-file", file: components},
	{rule: "components-alternative", file: "bootstrap-components.yaml", changed: "kind: x\n"},
	{rule: "components-name", dir: "bootstrap-foo/v0.1.0"},
	{rule: "metadata-file", file: metadata},
	{rule: "template-default", file: template},
	{rule: "file-name", file: "clustertemplate.yaml", changed: "kind: x\n"},
	{rule: "metadata-type", file: metadata, old: "v1alpha3", changed: "v1alpha2"},
	{rule: "metadata-type", file: metadata, old: "apiVersion", changed: "---\n---\napiVersion"},
	{rule: "metadata-type", file: metadata, old: "releaseSeries:\n", changed: "releaseSeries:\n  - {major: 4294967296, minor: 1, contract: v1beta2}\n"},
	{rule: "metadata-document", file: metadata, old: "releaseSeries:", changed: "---\nkind: x\nreleaseSeries:"},
	{rule: "metadata-type", file: metadata, old: "kind: Metadata", changed: "kind: Data"},
	{rule: "metadata-kind", file: metadata, old: "kind: Metadata\n", changed: ""},
	{rule: "metadata-series", file: metadata, old: "minor: 1", changed: "minor: 2"},
	{rule: "metadata-series", file: metadata, old: "v1beta2", changed: "v1alpha4"},
	{rule: "metadata-series-once", file: metadata, old: "releaseSeries:\n", changed: "releaseSeries:\n  - {major: 0, minor: 1, contract: v1beta1}\n"},
	{rule: "metadata-contract", file: metadata, old: "v1beta2", changed: "v1beta3"},
	{rule: "contract-ending", file: metadata, old: "v1beta2", changed: "v1beta1"},
	{rule: "contract-ending", file: components, old: "cluster.x-k8s.io/v1beta2: v1\n", changed: "cluster.x-k8s.io/v1beta1: v1\n", when: "2027-03-31"},
	{rule: "contract-ended", file: components, old: "cluster.x-k8s.io/v1beta2: v1\n", changed: "cluster.x-k8s.io/v1beta1: v1\n", when: "2027-04-01"},
	{rule: "components-namespace", file: components, old: "---\n", changed: "---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: other\n---\n"},
	{rule: "components-namespace-missing", file: components, old: "kind: Namespace", changed: "kind: ResourceQuota"},
	{rule: "components-target-namespace", file: components, old: "namespace: foo-system", changed: "namespace: other"},
	{rule: "components-namespace-field", file: components, old: "  namespace: foo-system\n", changed: ""},
	{rule: "components-namespace-field", file: components, old: "name: foo-aggregated", changed: "name: foo-aggregated\n  namespace: foo-system"},
	{rule: "components-label", file: components, old: "provider: infrastructure-foo", changed: "provider: foo"},
	{rule: "components-links", file: components, old: "name: foo-manager\n    namespace", changed: "name: foo\n    namespace"},
	{rule: "components-links", file: components, old: "serviceAccountName: foo-manager", changed: "serviceAccountName: foo-manager\n      volumes: [{name: c, secret: {secretName: c}}]"},
	{rule: "components-links", file: components, old: "          args:", changed: "          env: [{name: T, valueFrom: {secretKeyRef: {name: t, key: t}}}]\n          args:"},
	{rule: "components-links", file: components, old: "          args:", changed: "          envFrom: [{configMapRef: {name: t}}]\n          args:"},
	{rule: "components-links", file: components, old: "---\n", changed: "---\n" + certificate + "---\n"},
	{rule: "components-links", file: components, old: "---\n", changed: "---\n" + webhook("foo-system", "caBundle: Zm9v") + "---\n"},
	{rule: "components-links-external", file: components, old: "    name: foo-manager\n    namespace: foo-system", changed: "    name: other-manager\n    namespace: other-system"},
	{rule: "components-duplicate", file: components, old: "---\n", changed: "---\n" + serviceAccount + "---\n"},
	{rule: "webhook-service", file: components, old: "---\n", changed: "---\n" + webhook("other", "caBundle: Zm9v") + "---\n"},
	{rule: "webhook-service", file: components, old: "  versions:\n", changed: converted("caBundle: Zm9v, service: {name: w, namespace: other}")},
	{rule: "webhook-ca", file: components, old: "---\n", changed: "---\n" + webhook("foo-system", "x: y") + "---\n"},
	{rule: "webhook-ca", file: components, old: "---\n", changed: "---\n" + strings.Replace(webhook("foo-system", "x: y"), "{name: foo}", "{name: foo, annotations: {cert-manager.io/inject-ca-from: $(CERTIFICATE_NAMESPACE)/$(CERTIFICATE_NAME)}}", 1) + "---\n"},
	{rule: "webhook-ca", file: components, old: "  versions:\n", changed: converted("service: {name: w, namespace: foo-system}")},
	{rule: "variable-format", file: components, old: "${FOO_LOG_LEVEL:=0}", changed: "${ FOO_LOG_LEVEL }"},
	{rule: "file-readable", file: components, old: "${FOO_LOG_LEVEL:=0}", changed: "${FOO_LOG$LEVEL}"},
	{rule: "variable-prefix", file: components, old: "${FOO_LOG_LEVEL:=0}", changed: "${LOG_LEVEL:=0}"},
	{rule: "webhook-certificate", file: components, old: "---\n", changed: "---\n" + wired},
	{rule: "webhook-wiring", file: components, old: "---\n", changed: "---\n" + strings.Replace(wired, "app: foo", "app: bar", 1)},
	{rule: "webhook-wiring", file: components, old: "---\n", changed: "---\n" + strings.Replace(wired, "port: 443", "port: 8443", 1)},
	{rule: "webhook-wiring", file: components, old: "---\n", changed: "---\n" + strings.Replace(wired, "targetPort: 9443", "targetPort: webhooks", 1)},
	{rule: "webhook-wiring", file: components, old: "---\n", changed: "---\n" + strings.Replace(wired, "foo-webhooks.foo-system.svc", "foo-webhooks.foo", 1)},
	{rule: "webhook-wiring", file: components, old: "---\n", changed: "---\n" + strings.Replace(wired, "from: foo-system/foo", "from: foo-system/other", 1)},
	{rule: "manager-rights", file: components, old: "resources: [leases]", changed: "resources: [events]"},
	{rule: "manager-rights", file: components, old: "resources: [clusters, machines]", changed: "resources: [machines]"},
	{rule: "manager-rights", file: components, old: "resources: [\"*\"]\n    verbs: [\"*\"]", changed: "resources: [fooclusters, foomachines, foomachinepools]\n    verbs: [\"*\"]"},
	{rule: "manager-rights", file: components, old: "resources: [\"*\"]\n    verbs: [\"*\"]", changed: "resources: [\"*\"]\n    verbs: [get, list, watch]"},
	{rule: "manager-deployment", file: components, old: "- name: manager", changed: "- name: controller"},
	{rule: "manager-workload", file: components, old: "kind: Deployment", changed: "kind: StatefulSet"},
	{rule: "manager-namespaces", file: components, old: "--namespace=", changed: "--namespace=default"},
	{rule: "manager-namespaces", file: components, old: "--namespace=", changed: "--namespace\n            - default"},
	{rule: "components-types", file: components, old: "registry.foo.com/", changed: ""},
	{rule: "manager-image", file: components, old: "manager:v0.1.0", changed: "manager"},
	{rule: "components-types", file: components, old: "manager:v0.1.0", changed: "Manager:v0.1.0"},
	{rule: "components-types", file: components, old: "matchLabels: {app: foo}", changed: "matchLabels: [app]"},
	{rule: "object-served", file: components, old: "---\n", changed: "---\n" + strings.Replace(webhook("foo-system", "caBundle: Zm9v"), "io/v1", "io/v1beta1", 1) + "---\n"},
	{rule: "object-served", file: components, old: "apiVersion: apps/v1", changed: "apiVersion: extensions/v1beta1"},
	{rule: "object-served", file: components, old: "apiVersion: rbac.authorization.k8s.io/v1", changed: "apiVersion: rbac.authorization.k8s.io/v1beta1"},
	{rule: "object-served", file: components, old: "---\n", changed: "---\n{apiVersion: policy/v1beta1, kind: PodSecurityPolicy, metadata: {name: a}}\n---\n"},
	{rule: "object-served", file: components, old: "---\n", changed: "---\n{apiVersion: batch/v1beta1, kind: CronJob, metadata: {name: a}}\n---\n"},
	{rule: "object-served", file: template, old: "apiVersion", changed: "apiVersion: apps/v1\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion"},
	{rule: "components-types", file: components, old: "---\n", changed: "---\n{apiVersion: foo.com/v1, kind: Deployment, metadata: {name: a}}\n---\n"},
	{rule: "components-types", file: components, old: "---\n", changed: "---\n{apiVersion: foo.com/v1, kind: RoleBinding, metadata: {name: a}}\n---\n"},
	{rule: "components-types", file: components, old: "    cluster.x-k8s.io/v1beta2: v1\n", changed: "    cluster.x-k8s.io/v1beta2: v1\n  annotations: {cert-manager.io/inject-ca-from: foo}\n"},
	{rule: "crd-name", file: components, old: "name: foomachinepools.", changed: "name: foopools."},
	{rule: "crd-scope", file: components, old: "scope: Namespaced", changed: "scope: Cluster"},
	{rule: "crd-list-kind", file: components, old: "listKind: FooClusterList", changed: "listKind: FooClusters"},
	{rule: "crd-contract-label", file: components, old: "cluster.x-k8s.io/v1beta2: v1\n", changed: "x: y\n"},
	{rule: "crd-contract-version", file: components, old: "cluster.x-k8s.io/v1beta2: v1\n", changed: "cluster.x-k8s.io/v1beta2: v1_v2\n"},
	{rule: "crd-contract-version", file: components, old: "served: true", changed: "served: false"},
	{rule: "crd-contract-stale", file: components, old: "cluster.x-k8s.io/v1beta2: v1\n", changed: "cluster.x-k8s.io/v1beta2: v1\n    cluster.x-k8s.io/v1alpha4: v0\n"},
	{rule: "crd-contract-stale", file: components, old: "cluster.x-k8s.io/v1beta2: v1\n", changed: "cluster.x-k8s.io/v1beta2: v1beta1_v1\n"},
	{rule: "field-endpoint", file: components, old: "controlPlaneEndpoint:", changed: "endpoint:"},
	{rule: "crd-machine-template", file: components, old: "kind: FooMachineTemplate\n", changed: "kind: FooMachinePattern\n"},
	{rule: "crd-contract-series", file: components, old: "cluster.x-k8s.io/v1beta2: v1\n", changed: "cluster.x-k8s.io/v1beta1: v1\n"},
	{rule: "crd-storage", file: components, old: "storage: true", changed: "storage: false"},
	{rule: "crd-conversion", file: components, old: "  versions:\n", changed: "  versions:\n    - {name: v2, served: true, storage: false, subresources: {status: {}}}\n"},
	{rule: "crd-status", file: components, old: "subresources: {status: {}}", changed: "subresources: {}"},
	{rule: "field-mandatory", file: components, old: "port: {type: integer}", changed: "gate: {type: integer}"},
	{rule: "field-mandatory", file: components, old: "replicas: {type: integer}", changed: "size: {type: integer}"},
	{rule: "field-mandatory", file: components, old: "providerID: {type: string}", changed: "id: {type: string}"},
	{rule: "field-mandatory", file: components, old: "                template:\n", changed: "                pattern:\n"},
	{rule: "field-type", file: components, old: "port: {type: integer}", changed: "port: {type: string}"},
	{rule: "field-type", file: components, old: "items: {type: string}", changed: "items: {type: object}"},
	{rule: "field-type", file: components, old: "failureDomains:\n                  type: array", changed: "failureDomains:\n                  type: object"},
	{rule: "object-identity", file: template, old: "name: \"${CLUSTER_NAME}\"\n", changed: "name: y\n"},
	{rule: "object-identity", file: template, old: "name: \"${CLUSTER_NAME}\"\n", changed: "name: a\n  labels: {debug: on}\n"},
	{rule: "object-identity", file: template, old: "kind: FooCluster\nmetadata", changed: "metadata"},
	{rule: "object-identity", file: components, old: "---\n", changed: "---\napiVersion: v1\nkind: List\nitems: []\n---\n"},
	{rule: "yaml-dropped", file: template, old: "---\n", changed: "...\n"},
	{rule: "yaml-dropped", file: template, old: "---\n", changed: ""},
	{rule: "yaml-dropped", file: template, old: "---\n", changed: "---\n{kind: a, apiVersion: b, metadata: {name: c}}{kind: d}\n---\n"},
	{rule: "yaml-repeated", file: template, old: "  version: \"${KUBERNETES_VERSION}\"\n", changed: "  version: \"${KUBERNETES_VERSION}\"\n  version: \"${KUBERNETES_VERSION}\"\n"},
	{rule: "yaml-value", file: template, old: "${FOO_PORT:=6443}", changed: "6_443"},
	{rule: "variable-empty", file: template, old: "host: ${FOO_ENDPOINT}", changed: "host: \"${FOO_ENDPOINT:=${FOO_HOST}}\""},
	{rule: "variable-default", file: template, old: "host: ${FOO_ENDPOINT}", changed: "host: ${FOO_PORT}"},
	{rule: "variable-function", file: template, old: "${FOO_PORT:=6443}", changed: "${FOO_PORT:?6443}"},
	{rule: "variable-text", file: template, old: "${FOO_PORT:=6443}", changed: "6443\n  colour: ${FOO_COLOUR:=#fff}"},
	{rule: "variable-text", file: class, old: "      name: quick\n---", changed: "      name: quick${FOO_A:= # a}\n---"},
	{rule: "variable-case", file: template, old: "${FOO_ENDPOINT}", changed: "${FOO_endpoint}"},
	{rule: "variable-comment", file: template, old: "---\n", changed: "---\n# like ${FOO_OTHER}\n"},
	{rule: "variable-dollar", file: template, old: "---\n", changed: "---\n# echo $$\n"},
	{rule: "field-conditions", file: components, old: "conditions:", changed: "states:"},
	{rule: "field-initialization", file: components, old: "replicas: {type: integer}\n                initialization:", changed: "replicas: {type: integer}\n                begun:"},
	{rule: "field-template", file: components, old: "size: {type: string}", changed: "providerID: {type: string}"},
	{rule: "role-aggregation", file: components, old: "    cluster.x-k8s.io/aggregate-to-manager", changed: "    aggregate-to-manager"},
	{rule: "role-aggregation", file: components, old: "list, patch, update, watch]", changed: "list, update, watch]"},
	{rule: "role-aggregation-control-plane", file: components, old: "kubeadm.controlplane.cluster.x-k8s.io/", changed: "kubeadm/"},
	{rule: "ipam-pool", ipam: true, old: "kind: CustomResourceDefinition", changed: "kind: Definition"},
	{rule: "ipam-pool", ipam: true, old: "name: barpools.ipam", changed: "name: pools.ipam"},
	{rule: "ipam-pool-conditions", ipam: true, old: "conditions:", changed: "states:"},
	{rule: "ipam-rights", ipam: true, old: "[get, list, watch, patch]", changed: "[get, list, patch]"},
	{rule: "ipam-rights", ipam: true, old: "ipaddressclaims/status", changed: "ipaddressclaims/finalizers"},
	{rule: "ipam-rights", ipam: true, old: "[ipaddresses]", changed: "[ipaddress]"},
	{rule: "ipam-rights", ipam: true, old: "[clusters]", changed: "[machines]"},
	{rule: "template-namespace", file: template, old: "---\n", changed: "---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: x\n---\n"},
	{rule: "template-one-namespace", file: template, old: "    kind: FooCluster\n", changed: "    kind: FooCluster\n    namespace: other\n"},
	{
		rule: "template-reference-namespace", file: template, old: "v1beta2\nkind: Cluster\nmetadata:\n  name: \"${CLUSTER_NAME}\"\nspec:\n  infrastructureRef:\n",
		changed: "v1beta1\nkind: Cluster\nmetadata:\n  name: \"${CLUSTER_NAME}\"\nspec:\n  infrastructureRef:\n    namespace: default\n",
	},
	{rule: "template-reference", file: template, old: "    apiGroup: infrastructure.foo.com\n", changed: "    apiVersion: infrastructure.foo.com/v1\n"},
	{rule: "template-reference", file: template, old: "    apiGroup: infrastructure.foo.com\n", changed: "    apiGroup: infrastructure.foo.com/v1\n"},
	{rule: "template-reference", file: template, old: "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\n", changed: "apiVersion: cluster.x-k8s.io/v1beta1\nkind: Cluster\n"},
	{rule: "template-reference", file: template, old: "  version: \"${KUBERNETES_VERSION}\"", changed: "  version: \"${KUBERNETES_VERSION}\"\n  machineTemplate: {spec: {infrastructureRef: {kind: FooCluster, name: \"${CLUSTER_NAME}\", apiVersion: infrastructure.foo.com/v1}}}"},
	{rule: "template-reference", file: class, old: "apiVersion: infrastructure.foo.com/v1\n      kind", changed: "apiGroup: infrastructure.foo.com\n      kind"},
	{rule: "template-fixed-namespace", file: template, old: "namespace: \"${NAMESPACE}\"", changed: "namespace: default"},
	{rule: "template-kind", file: template, old: "kind: FooCluster\nmetadata", changed: "kind: FooClusters\nmetadata"},
	{rule: "template-kind", file: template, old: "apiVersion: infrastructure.foo.com/v1\n", changed: "apiVersion: infrastructure.foo.com/v1alpha1\n"},
	{rule: "template-topology", file: topology, old: "    version:", changed: "    workers: {machineDeployments: [{class: absent, name: a}]}\n    version:"},
	{rule: "template-topology", file: topology, old: "    version:", changed: "    variables: [{name: absent, value: 1}]\n    version:"},
	{rule: "template-topology", file: class, old: "spec:\n  infrastructure:", changed: "spec:\n  variables: [{name: size, required: true, schema: {openAPIV3Schema: {type: string}}}]\n  infrastructure:"},
	{rule: "template-cluster", file: template, old: "name: \"${CLUSTER_NAME}\"", changed: "name: demo"},
	{rule: "template-cluster", file: topology, old: "kind: Cluster", changed: "kind: Clusters"},
	{rule: "template-version", file: topology, old: "${KUBERNETES_VERSION}", changed: "v1.36.0"},
	{rule: "template-strings", file: template, old: "name: \"${CLUSTER_NAME}\"", changed: "name: ${CLUSTER_NAME}"},
	{rule: "template-strings", file: template, old: "namespace: \"${NAMESPACE}\"", changed: "namespace: ${NAMESPACE}"},
	{rule: "template-variable-prefix", file: template, old: "${FOO_PORT:=6443}", changed: "${PORT:=6443}"},
	{rule: "template-links", file: template, old: "kind: FooCluster\n    name: \"${CLUSTER_NAME}\"", changed: "kind: FooCluster\n    name: other"},
	{rule: "template-links", file: class, old: "name: quick\n---", changed: "name: other\n---"},
	{rule: "template-class", file: topology, old: "name: quick", changed: "name: other"},
	{rule: "class-name", file: class, old: "name: quick\nspec:\n  infra", changed: "name: other\nspec:\n  infra"},
	{rule: "class-name", file: class, old: "kind: ClusterClass", changed: "kind: Class"},
	{rule: "class-reference-namespace", file: class, old: "      name: quick\n---", changed: "      name: quick\n      namespace: x\n---"},
	{rule: "class-namespace", file: class, old: "name: quick\nspec:\n  template", changed: "name: quick\n  namespace: x\nspec:\n  template"},
	{rule: "class-variables", file: class, old: "template: {spec: {}}", changed: "template: {spec: {size: ${FOO_SIZE:=s}}}"},
	{rule: "class-strings", file: class, old: "spec:\n  infra", changed: patched("'{{ .builtin.cluster.name }}'")},
	{rule: "class-strings", file: class, old: "spec:\n  infra", changed: patched("|\n            {{- if .x }}\n            - a: {{.builtin.cluster.namespace}}\n            {{- end }}")},
	{rule: "class-shared", file: class, old: "name: quick\nspec:\n  template", changed: "name: slow\nspec:\n  template"},
}

// Documents of components.
const (
	certificate    = "apiVersion: cert-manager.io/v1\nkind: Certificate\nmetadata: {name: foo, namespace: foo-system}\nspec: {secretName: foo, issuerRef: {name: absent}}\n"
	serviceAccount = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: foo-manager, namespace: foo-system}\n"
)

// wired is a webhook with all behind it but the volume of the Pods.
const wired = `apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: foo, namespace: foo-system, labels: {cluster.x-k8s.io/provider: infrastructure-foo}}
spec: {selfSigned: {}}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: foo, namespace: foo-system, labels: {cluster.x-k8s.io/provider: infrastructure-foo}}
spec: {secretName: foo-webhooks, dnsNames: [foo-webhooks.foo-system.svc], issuerRef: {name: foo}}
---
apiVersion: v1
kind: Service
metadata: {name: foo-webhooks, namespace: foo-system, labels: {cluster.x-k8s.io/provider: infrastructure-foo}}
spec: {selector: {app: foo}, ports: [{port: 443, targetPort: 9443}]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata:
  name: foo
  labels: {cluster.x-k8s.io/provider: infrastructure-foo}
  annotations: {cert-manager.io/inject-ca-from: foo-system/foo}
webhooks: [{name: foo.foo.com, clientConfig: {service: {name: foo-webhooks, namespace: foo-system}}}]
---
`

// webhook has the namespace of its Service and another field of clientConfig.
func webhook(namespace, other string) string {
	return fmt.Sprintf("apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: foo}\n"+
		"webhooks: [{name: foo, clientConfig: {%s, service: {name: foo-webhooks, namespace: %s}}}]\n", other, namespace)
}

// patched is a ClusterClass with a patch that has a template as its value.
func patched(template string) string {
	return "spec:\n  patches:\n  - name: p\n    definitions:\n    - selector: {apiVersion: infrastructure.foo.com/v1, kind: FooClusterTemplate, matchResources: {infrastructureCluster: true}}\n" +
		"      jsonPatches:\n      - op: add\n        path: /spec/template/spec/x\n        valueFrom:\n          template: " + template + "\n  infra"
}

// converted are two versions of a CRD, one converted to the other by a webhook.
func converted(config string) string {
	return "  conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {" + config + "}}}\n" +
		"  versions:\n    - {name: v0, served: true, storage: false, subresources: {status: {}}}\n"
}

// TestViolations holds that each rule finds what breaks it. It prints the recall: how many of
// the violations that were planted are found.
func TestViolations(t *testing.T) {
	var found atomic.Int64
	t.Run("planted", func(t *testing.T) {
		for _, v := range violations {
			t.Run(v.rule, func(t *testing.T) {
				t.Parallel()
				v.mustBeFound(t)
				found.Add(1)
			})
		}
	})
	t.Logf("recall %d of %d planted violations, of %d rules", found.Load(), len(violations), len(providercheck.Rules))
}

func (v violation) mustBeFound(t *testing.T) {
	t.Helper()
	r, err := providercheck.Load(plant(t, v))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, time.December, 1, 0, 0, 0, 0, time.UTC)
	if v.when != "" {
		if now, err = time.Parse(time.DateOnly, v.when); err != nil {
			t.Fatal(err)
		}
	}
	r.At(now)
	findings := providercheck.Check(r)
	i := slices.IndexFunc(findings, func(f providercheck.Finding) bool { return f.Rule == v.rule })
	if i < 0 {
		t.Fatalf("the rule found nothing; others found %+v", findings)
	}
	f := findings[i]
	if v.old != "" && v.rule != "file-readable" && (f.File == "" || strings.HasPrefix(f.File, v.file) && f.Line == 0 && f.Object != "") {
		t.Errorf("no place: %+v", f)
	}
	if f.Message == "" || f.Remedy == "" || f.Contract == "" {
		t.Errorf("incomplete: %+v", f)
	}
}

func plant(t *testing.T, v violation) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), cmp.Or(v.dir, "infrastructure-foo/v0.1.0"))
	if v.ipam {
		dir, v.file = filepath.Join(t.TempDir(), "ipam-bar/v0.1.0"), "ipam-components.yaml"
	}
	if err := os.CopyFS(dir, os.DirFS(good)); err != nil {
		t.Fatal(err)
	}
	if v.ipam {
		if err := errors.Join(os.Remove(filepath.Join(dir, components)), os.WriteFile(filepath.Join(dir, v.file), []byte(ipam), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, v.file)
	switch {
	case v.file == "":
	case v.old == "" && v.changed == "":
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	case v.old == "":
		if err := os.WriteFile(path, []byte(v.changed), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(data), v.old) {
			t.Fatalf("%s lacks %q", v.file, v.old)
		}
		if err := os.WriteFile(path, []byte(strings.Replace(string(data), v.old, v.changed, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// A rule without a violation here might never find anything.
func TestEveryRuleIsViolated(t *testing.T) {
	seen := map[string]bool{}
	for _, rule := range providercheck.Rules {
		if seen[rule.ID] {
			t.Errorf("two rules have the ID %s", rule.ID)
		}
		seen[rule.ID] = true
		if !slices.ContainsFunc(violations, func(v violation) bool { return v.rule == rule.ID }) {
			t.Errorf("no violation of %s is planted", rule.ID)
		}
		if rule.Title == "" || rule.Remedy == "" || rule.Contract == "" {
			t.Errorf("rule %s is incomplete", rule.ID)
		}
	}
}

// Our own templates, one file at a time as somebody checks them.
func TestOwnTemplates(t *testing.T) {
	files, err := filepath.Glob("../../templates/cluster-template*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no templates: %v", err)
	}
	for _, file := range files {
		releases, err := providercheck.Source{Place: file}.Releases(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range releases {
			for _, found := range providercheck.Check(r) {
				t.Errorf("%s: %+v", file, found)
			}
		}
	}
}

func TestNoRelease(t *testing.T) {
	if _, err := providercheck.Load(t.TempDir()); !errors.Is(err, providercheck.ErrNoRelease) {
		t.Errorf("an empty directory: err = %v", err)
	}
	if _, err := providercheck.Load(filepath.Join(t.TempDir(), "absent")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: err = %v", err)
	}
}

// Files come from anybody: whatever they hold, a check ends with findings.
func FuzzCheck(f *testing.F) {
	for _, name := range []string{components, metadata, template, topology, class} {
		data, err := os.ReadFile(filepath.Join(good, name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(name, data)
	}
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		if !slices.Contains([]string{components, metadata, template, topology, class}, name) {
			t.Skip()
		}
		dir := filepath.Join(t.TempDir(), "infrastructure-foo", "v0.1.0")
		if err := os.CopyFS(dir, os.DirFS(good)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
		r, err := providercheck.Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		providercheck.Check(r)
	})
}
