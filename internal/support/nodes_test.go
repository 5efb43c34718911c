package support

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestSilentClustersTakeTheTimeOfOne holds that any number of workload clusters that do not
// answer take as long as one, and that the others are there.
func TestSilentClustersTakeTheTimeOfOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clusters := make([]clusterv1.Cluster, 30)
		for i := range clusters {
			clusters[i] = clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: fmt.Sprintf("c%d", i)}}
		}
		begin := time.Now()
		answers := listNodes(t.Context(), func(ctx context.Context, key client.ObjectKey) ([]corev1.Node, error) {
			if key.Name == "c7" {
				return []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "of-c7"}}}, nil
			}
			<-ctx.Done()
			return nil, ctx.Err()
		}, clusters)
		if took := time.Since(begin); took != nodesTimeout {
			t.Errorf("29 silent clusters take %s, want %s", took, nodesTimeout)
		}
		for i, a := range answers {
			if i == 7 && (a.err != nil || len(a.nodes) != 1) || i != 7 && !errors.Is(a.err, context.DeadlineExceeded) {
				t.Errorf("cluster %d: %+v", i, a)
			}
		}
	})
}
