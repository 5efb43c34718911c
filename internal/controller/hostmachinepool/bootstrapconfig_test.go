package hostmachinepool_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// withConfig gives the pool a KubeadmConfig that was changed after its Secret was made,
// by field manager owner.
func (w *world) withConfig(owner string) {
	w.t.Helper()
	// The API server tells times in seconds.
	time.Sleep(1100 * time.Millisecond)
	config := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"preKubeadmCommands": []any{"true"}}}}
	config.SetGroupVersionKind(bootstrapv1.GroupVersion.WithKind("KubeadmConfig"))
	config.SetNamespace(w.key.Namespace)
	config.SetName("config")
	if err := env.Client.Create(ctx, config, client.FieldOwner(owner)); err != nil {
		w.t.Fatal(err)
	}
	w.changeMachinePool(func(mp *clusterv1.MachinePool) {
		mp.Spec.Template.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{
			APIGroup: bootstrapv1.GroupVersion.Group, Kind: "KubeadmConfig", Name: "config",
		}
	})
}

// maker is the field manager that wrote the Secret of the pool.
func (w *world) maker() string {
	w.t.Helper()
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: w.key.Namespace, Name: *w.machinePool.Spec.Template.Spec.Bootstrap.DataSecretName}
	if err := env.Client.Get(ctx, key, secret); err != nil {
		w.t.Fatal(err)
	}
	return secret.ManagedFields[0].Manager
}

// Version and bootstrap config change together, but the Secret follows later: the pool
// waits, and rolls once.
func TestVersionAndContentRollOnce(t *testing.T) {
	w := newRunning(t, 1, infrav1.HostMachinePoolStrategy{})
	w.withConfig("capi-topology")
	w.upgrade()
	w.clock.Step(time.Minute)
	pool := w.reconcile()
	if n := len(w.hostMachines()); n != 1 {
		t.Fatalf("%d members before the bootstrap data followed", n)
	}
	wantReason(t, pool, clusterv1.RollingOutCondition, clusterv1.RollingOutReason, "follow its config")
	time.Sleep(1100 * time.Millisecond)
	w.rewrite("#cloud-config\nruncmd: [other]\n")
	pool = w.reconcile()
	if got := w.versions(); got[nextVersion] != 1 || pool.Status.Revision == "" {
		t.Fatalf("versions %v after the bootstrap data followed", got)
	}
	for _, m := range w.staying() {
		if m.Spec.Version == nextVersion && m.Labels[infrav1.RevisionLabel] != pool.Status.Revision {
			t.Errorf("%s is of revision %s and would be replaced again: the pool has %s", m.Name, m.Labels[infrav1.RevisionLabel], pool.Status.Revision)
		}
	}
}

// A config that its own provider wrote to, as it does with each token, holds nothing;
// nor does a Secret that never follows, for ever.
func TestVersionRollsWithoutNewContent(t *testing.T) {
	t.Run("written by the bootstrap provider", func(t *testing.T) {
		w := newRunning(t, 1, infrav1.HostMachinePoolStrategy{})
		w.withConfig(w.maker())
		w.upgrade()
		w.clock.Step(time.Minute)
		w.reconcile()
		if got := w.versions(); got[nextVersion] != 1 {
			t.Errorf("versions %v", got)
		}
	})
	t.Run("never followed", func(t *testing.T) {
		w := newRunning(t, 1, infrav1.HostMachinePoolStrategy{})
		w.withConfig("kubectl-edit")
		w.upgrade()
		w.clock.Step(21 * time.Minute)
		w.reconcile()
		if got := w.versions(); got[nextVersion] != 1 {
			t.Errorf("versions %v", got)
		}
	})
}
