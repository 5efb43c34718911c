package kube

import (
	"context"
	"fmt"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"

	"github.com/slipway-dev/slipway/internal/testenv"
)

var env *testenv.Env

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, func(s *runtime.Scheme) error { return clientgoscheme.AddToScheme(s) }, func(e *testenv.Env) error {
		env = e
		return nil
	}))
}

// Of more events than there may be the newest stay, some fewer than may, so that it is not done for each one.
func TestCleanEvents(t *testing.T) {
	testenv.Skip(t)
	c, err := metadata.NewForConfig(env.Config)
	if err != nil {
		t.Fatal(err)
	}
	namespace := env.Namespace(t)
	all := func() int {
		list := &corev1.EventList{}
		if err := env.Client.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		return len(list.Items)
	}
	if n := all(); n > 0 {
		t.Fatalf("%d events of others", n)
	}
	for i := range 10 {
		e := &corev1.Event{InvolvedObject: corev1.ObjectReference{Kind: "Namespace", Namespace: namespace, Name: namespace}}
		e.Namespace, e.Name = namespace, fmt.Sprintf("e-%d", i)
		if err := env.Client.Create(context.Background(), e); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct{ most, left int }{{11, 10}, {10, 10}, {9, 8}} {
		if err := cleanEvents(t.Context(), c, tc.most); err != nil || all() != tc.left {
			t.Errorf("of at most %d there are %d, %v; want %d", tc.most, all(), err, tc.left)
		}
	}
}
