package reconciler_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/slipway-dev/slipway/internal/reconciler"
)

// reader has two Clusters, one of them with a label for managers.
func reader(t *testing.T) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clusterv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "plain"}},
		&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "blue", Labels: map[string]string{clusterv1.WatchLabel: "blue"}}},
	).Build()
}

// broken is a reader that gets nothing, for a reason of its own.
func broken(t *testing.T) client.Reader {
	t.Helper()
	return interceptor.NewClient(reader(t), interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errBroken
		},
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errBroken
		},
	})
}

func TestRead(t *testing.T) {
	cases := []struct {
		name, filter string
		want         bool
	}{
		{"plain", "", true},
		{"blue", "", true},
		{"blue", "blue", true},
		{"blue", "green", false},
		{"plain", "blue", false},
		{"gone", "", false},
		{"gone", "blue", false},
	}
	for _, c := range cases {
		t.Run(c.name+" for "+c.filter, func(t *testing.T) {
			o := &clusterv1.Cluster{}
			got, err := reconciler.Read(t.Context(), reader(t), request(c.name), o, c.filter)
			if err != nil || got != c.want {
				t.Fatalf("%t, %v; want %t", got, err, c.want)
			}
			if got && o.Name != c.name {
				t.Errorf("read %q", o.Name)
			}
		})
	}
	if got, err := reconciler.Read(t.Context(), broken(t), request("plain"), &clusterv1.Cluster{}, ""); got || !errors.Is(err, errBroken) {
		t.Errorf("without an API server: %t, %v", got, err)
	}
}

func request(name string) ctrl.Request {
	return ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "ns", Name: name}}
}

func TestCluster(t *testing.T) {
	for name, want := range map[string]bool{"plain": true, "gone": false, "": false} {
		cluster, err := reconciler.Cluster(t.Context(), reader(t), "ns", name)
		if err != nil || (cluster != nil) != want {
			t.Errorf("Cluster %q: %v, %v; want one: %t", name, cluster, err, want)
		}
	}
	if cluster, err := reconciler.Cluster(t.Context(), broken(t), "ns", "plain"); cluster != nil || !errors.Is(err, errBroken) {
		t.Errorf("without an API server: %v, %v", cluster, err)
	}
	if cluster, err := reconciler.Cluster(t.Context(), broken(t), "ns", ""); cluster != nil || err != nil {
		t.Errorf("without a name: %v, %v; want no question at all", cluster, err)
	}
}

func TestRequests(t *testing.T) {
	labelled := func(c *clusterv1.Cluster) bool { return c.Labels[clusterv1.WatchLabel] != "" }
	cases := map[string]struct {
		reader    client.Reader
		namespace string
		keep      func(*clusterv1.Cluster) bool
		want      []ctrl.Request
	}{
		"all":               {reader(t), "ns", nil, []ctrl.Request{request("blue"), request("plain")}},
		"some":              {reader(t), "ns", labelled, []ctrl.Request{request("blue")}},
		"another namespace": {reader(t), "other", nil, nil},
		"no answer":         {broken(t), "ns", nil, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := reconciler.Requests(t.Context(), c.reader, &clusterv1.ClusterList{}, c.keep, client.InNamespace(c.namespace))
			if !slices.Equal(got, c.want) {
				t.Errorf("requests are %v, want %v", got, c.want)
			}
		})
	}
}
