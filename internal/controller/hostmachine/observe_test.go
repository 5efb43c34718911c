package hostmachine

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// TestFailureDomainWithoutHostCluster holds that the failure domain in the status stays as it is
// while the HostCluster, which names the label that decides, cannot be read.
func TestFailureDomainWithoutHostCluster(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(infrav1.AddToScheme(scheme), clusterv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	busy := errors.New("the API server is busy")
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "hostclusters"}, "c")
	hostCluster := &infrav1.HostCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "c"}, Spec: infrav1.HostClusterSpec{FailureDomainLabel: "row"}}
	for name, c := range map[string]struct {
		failure     error
		ref         string
		want        string
		wantFailure error
	}{
		"read":              {nil, "HostCluster", "row-2", nil},
		"of another kind":   {nil, "OtherCluster", "rack-1", nil},
		"cannot be read":    {busy, "HostCluster", "row-1", busy},
		"no longer present": {gone, "HostCluster", "row-1", nil},
	} {
		r := &Reconciler{Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(hostCluster).WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, api client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if c.failure != nil {
					return c.failure
				}
				return api.Get(ctx, key, o, opts...)
			},
		}).Build()}
		cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "c"}}
		cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: infrav1.GroupVersion.Group, Kind: c.ref, Name: "c"}
		m := &infrav1.HostMachine{Status: infrav1.HostMachineStatus{FailureDomain: "row-1"}}
		h := &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"row": "row-2"}}, Spec: infrav1.HostSpec{FailureDomain: "rack-1"}}
		err := r.mirror(t.Context(), &scope{hostMachine: m, cluster: cluster, host: h})
		if got := m.Status.FailureDomain; got != c.want || !errors.Is(err, c.wantFailure) {
			t.Errorf("%s: failure domain %q and error %v, want %q and %v", name, got, err, c.want, c.wantFailure)
		}
	}
}
