package testenv

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
)

// StartWorkload starts another API server, which knows the kinds of Kubernetes only,
// as the workload cluster of Clusters. Main stops it.
func (e *Env) StartWorkload() (*Env, error) {
	workload := &Env{Scheme: scheme.Scheme}
	stop, err := workload.start(&envtest.Environment{})
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
