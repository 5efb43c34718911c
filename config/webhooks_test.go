package config_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
)

// A manager that is away stops nobody who has nothing to do with it: a webhook that fails closed
// is about Slipway's own kinds, or about objects that carry a label of ours.
func TestWebhooksStopNobodyElse(t *testing.T) {
	labels := []string{lifecyclev1.DeletionGuardLabel, lifecyclev1.EnforcementLabel}
	selects := func(selector *metav1.LabelSelector) bool {
		if selector == nil {
			return false
		}
		for label := range selector.MatchLabels {
			if slices.Contains(labels, label) {
				return true
			}
		}
		return slices.ContainsFunc(selector.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool {
			return slices.Contains(labels, r.Key) && (r.Operator == metav1.LabelSelectorOpExists || r.Operator == metav1.LabelSelectorOpIn)
		})
	}
	checked := 0
	check := func(file, name string, policy *admissionv1.FailurePolicyType, rules []admissionv1.RuleWithOperations, selectors ...*metav1.LabelSelector) {
		checked++
		if policy != nil && *policy == admissionv1.Ignore || slices.ContainsFunc(selectors, selects) {
			return
		}
		for _, rule := range rules {
			for _, group := range rule.APIGroups {
				if !strings.HasSuffix(group, ".slipway.dev") {
					t.Errorf("%s: webhook %s fails closed for all %v of group %q: while nobody answers, it stops everybody", file, name, rule.Resources, group)
				}
			}
		}
	}
	for file, document := range manifests(t) {
		var validating admissionv1.ValidatingWebhookConfiguration
		if err := yaml.Unmarshal(document, &validating); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		switch validating.Kind {
		case "ValidatingWebhookConfiguration":
			for _, w := range validating.Webhooks {
				check(file, w.Name, w.FailurePolicy, w.Rules, w.NamespaceSelector, w.ObjectSelector)
			}
		case "MutatingWebhookConfiguration":
			var mutating admissionv1.MutatingWebhookConfiguration
			if err := yaml.Unmarshal(document, &mutating); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			for _, w := range mutating.Webhooks {
				check(file, w.Name, w.FailurePolicy, w.Rules, w.NamespaceSelector, w.ObjectSelector)
			}
		}
	}
	if checked < 8 {
		t.Errorf("only %d webhooks were found", checked)
	}
}

// manifests returns the documents of all YAML files of this directory, by file and number.
func manifests(t *testing.T) map[string][]byte {
	t.Helper()
	documents := map[string][]byte{}
	err := fs.WalkDir(os.DirFS("."), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" || strings.Contains(path, "crd/bases") {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for i, document := range bytes.Split(data, []byte("\n---\n")) {
			documents[fmt.Sprintf("%s, document %d", path, i+1)] = document
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return documents
}
