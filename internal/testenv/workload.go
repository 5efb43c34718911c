package testenv

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// AddToScheme adds the kinds of Kubernetes, of Cluster API's core and of ours.
func AddToScheme(s *runtime.Scheme) error {
	return errors.Join(scheme.AddToScheme(s), clusterv1.AddToScheme(s), infrav1.AddToScheme(s), lifecyclev1.AddToScheme(s))
}

// MainWithWorkload is Main for tests of what works on workload clusters too: it starts
// a second API server for those, which knows the kinds of Kubernetes only.
func MainWithWorkload(m *testing.M, start func(management, workload *Env)) int {
	return Main(m, AddToScheme, func(e *Env) error {
		workload, err := e.startWorkload()
		start(e, workload)
		return err
	})
}

func (e *Env) startWorkload() (*Env, error) {
	workload := &Env{Scheme: scheme.Scheme}
	stop, err := workload.start(&envtest.Environment{}, nil)
	if err != nil {
		return nil, err
	}
	e.others = append(e.others, stop)
	return workload, nil
}

func (e *Env) stopOthers() {
	for _, stop := range e.others {
		stop()
	}
}

// NewWorkloadCluster makes a Cluster whose workload cluster is the API server of
// workload, with its kubeconfig as the control plane provider writes it.
func (e *Env) NewWorkloadCluster(t *testing.T, namespace string, workload *Env) *clusterv1.Cluster {
	t.Helper()
	cluster := NewCluster(t, e.Client, namespace)
	create(t, e.Client, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: secret.Name(cluster.Name, secret.Kubeconfig),
			Labels: map[string]string{clusterv1.ClusterNameLabel: cluster.Name},
		},
		Type: clusterv1.ClusterSecretType,
		Data: map[string][]byte{secret.KubeconfigDataName: workload.Kubeconfig},
	})
	if err := e.Client.Get(context.Background(), client.ObjectKeyFromObject(cluster), cluster); err != nil {
		t.Fatalf("read Cluster %s: %v", cluster.Name, err)
	}
	return cluster
}
