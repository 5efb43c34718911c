package up

import (
	"errors"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestCheckClasses(t *testing.T) {
	there := []client.ObjectKey{{Namespace: "default", Name: "c"}, {Namespace: "default", Name: "c"}, {Namespace: "other", Name: "o"}}
	if err := checkClasses(fileOf(t, "c"), there); err != nil {
		t.Errorf("a class that is there: %v", err)
	}
	var unknown *UnknownClassError
	// A class of another namespace does not count, nor is it proposed.
	if err := checkClasses(fileOf(t, "o"), there); !errors.As(err, &unknown) || strings.Join(unknown.Known, ",") != "c" || unknown.Cluster != "a" {
		t.Fatalf("got %#v", err)
	}
	for _, want := range []string{"x.yaml", `"o"`, "classRef.name", ": c)"} {
		if !strings.Contains(unknown.Error(), want) {
			t.Errorf("%q does not contain %q", unknown, want)
		}
	}
	if err := checkClasses(fileOf(t, "o"), nil); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("got %v", err)
	}
}

func TestCheckClassesLooksIntoTheFile(t *testing.T) {
	const text = `apiVersion: cluster.x-k8s.io/v1beta2
kind: ClusterClass
metadata: {name: mine, namespace: classes}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: a}
spec: {topology: {classRef: {name: mine, namespace: NS}, version: v1.36.3}}
`
	for namespace, known := range map[string]bool{"classes": true, "elsewhere": false} {
		f, err := Parse("x.yaml", []byte(strings.Replace(text, "NS", namespace, 1)))
		if err != nil {
			t.Fatal(err)
		}
		if err := checkClasses(f, nil); (err == nil) != known {
			t.Errorf("class in namespace %s: %v", namespace, err)
		}
	}
}
