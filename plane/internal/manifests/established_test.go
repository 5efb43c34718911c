package manifests

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/fake"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestNudge is what a kill of the API server between two writes of its own leaves:
// a CRD with accepted names that nobody goes on to establish.
func TestNudge(t *testing.T) {
	crd := func(name string, accepted, established apiextensionsv1.ConditionStatus) *apiextensionsv1.CustomResourceDefinition {
		return &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "7"},
			Status: apiextensionsv1.CustomResourceDefinitionStatus{Conditions: []apiextensionsv1.CustomResourceDefinitionCondition{
				{Type: apiextensionsv1.NamesAccepted, Status: accepted}, {Type: apiextensionsv1.Established, Status: established},
			}},
		}
	}
	const yes, no = apiextensionsv1.ConditionTrue, apiextensionsv1.ConditionFalse
	c := fake.NewSimpleClientset(crd("stuck", yes, no), crd("served", yes, yes), crd("conflict", no, no), crd("foreign", yes, no)).ApiextensionsV1().CustomResourceDefinitions()
	if err := nudge(t.Context(), c, map[string]bool{"stuck": true, "served": true, "conflict": true, "absent": true}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"stuck": "7", "served": "", "conflict": "", "foreign": ""} {
		got, err := c.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || got.Annotations[nudgeAnnotation] != want {
			t.Errorf("%s: nudged at %q, want %q; %v", name, got.Annotations[nudgeAnnotation], want, err)
		}
	}
}
