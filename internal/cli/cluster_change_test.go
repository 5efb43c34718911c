package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// TestWaitEndsWhenTheClusterIsDeleted holds that --wait ends with an error, and prints no
// state, when the Cluster is deleted: before the first poll, during the wait, and also when
// another Cluster has its name.
func TestWaitEndsWhenTheClusterIsDeleted(t *testing.T) {
	for name, change := range map[string]func(context.Context, client.Client, *clusterv1.Cluster) error{
		"before the first poll": nil,
		"meanwhile":             func(ctx context.Context, c client.Client, old *clusterv1.Cluster) error { return c.Delete(ctx, old) },
		"and made again": func(ctx context.Context, c client.Client, old *clusterv1.Cluster) error {
			if err := c.Delete(ctx, old); err != nil {
				return err
			}
			return c.Create(ctx, waitedFor("two"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				scheme := runtime.NewScheme()
				if err := clusterv1.AddToScheme(scheme); err != nil {
					t.Fatal(err)
				}
				c := fake.NewClientBuilder().WithScheme(scheme).Build()
				if change != nil {
					cluster := waitedFor("one")
					if err := c.Create(t.Context(), cluster); err != nil {
						t.Fatal(err)
					}
					time.AfterFunc(5*time.Second, func() {
						if err := change(context.WithoutCancel(t.Context()), c, cluster); err != nil {
							t.Error(err)
						}
					})
				}
				command, out := plugin(), &bytes.Buffer{}
				command.SetContext(t.Context())
				command.SetOut(out)
				command.SetErr(&bytes.Buffer{})
				f := &waitFlags{wait: true, timeout: time.Hour}
				err := f.waitFor(command, &session{WithWatch: c, namespace: "n"}, "c", outputTable)
				if err == nil || !strings.Contains(err.Error(), "n/c was deleted") || out.Len() > 0 {
					t.Errorf("the Cluster is gone: %v, printed %q", err, out)
				}
			})
		})
	}
}

// waitedFor is a Cluster that is never ready.
func waitedFor(uid types.UID) *clusterv1.Cluster {
	return &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "c", UID: uid}}
}
