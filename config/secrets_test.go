package config_test

import (
	"os"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"
)

// TestSecretsBinding processes the roles as clusterctl does. Only the content of the role may differ:
// clusterctl's upgrade leaves a cluster-scoped object of another name or kind behind.
func TestSecretsBinding(t *testing.T) {
	raw, err := os.ReadFile("rbac/secrets_binding.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const role = "kind: ClusterRole\nmetadata:\n  name: slipway-manager-secrets-everywhere\n"
	rest := map[string]bool{}
	for value, everywhere := range map[string]bool{"": true, "ClusterRoleBinding": true, "RoleBinding": false, "rolebinding": false, "none": false} {
		processed, err := yamlprocessor.NewSimpleProcessor().Process(raw, func(string) (string, error) { return value, nil })
		if err != nil {
			t.Fatal(err)
		}
		var others []string
		for _, document := range strings.Split(string(processed), "---\n") {
			if !strings.Contains(document, role) {
				others = append(others, document)
				continue
			}
			r := rbacv1.ClusterRole{}
			if err := yaml.UnmarshalStrict([]byte(document), &r); err != nil {
				t.Fatal(err)
			}
			if got := r.Rules[0].Resources[0] == "secrets"; len(r.Rules) != 1 || len(r.Rules[0].Resources) != 1 || got != everywhere {
				t.Errorf("SLIPWAY_MANAGER_SECRETS_BINDING=%s: the rules in all namespaces are %v", value, r.Rules)
			}
		}
		if len(others) != 2 {
			t.Errorf("%d other objects, want a RoleBinding and a ClusterRoleBinding", len(others))
		}
		rest[strings.Join(others, "")] = true
	}
	if len(rest) != 1 {
		t.Error("more than the role depends on the variable")
	}
}
