package hostmachinepool_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv"
)

// rewrite replaces the bootstrap data, as the bootstrap provider does, and lets the
// time pass in which the old data would still be believed.
func (w *world) rewrite(data string) {
	w.t.Helper()
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: w.key.Namespace, Name: *w.machinePool.Spec.Template.Spec.Bootstrap.DataSecretName}
	if err := env.Client.Get(ctx, key, secret); err != nil {
		w.t.Fatal(err)
	}
	secret.Data["value"] = []byte(data)
	if err := env.Client.Update(ctx, secret); err != nil {
		w.t.Fatal(err)
	}
	w.clock.Step(time.Minute)
}

func joinData(token, motd string) string {
	return fmt.Sprintf("#cloud-config\nwrite_files:\n- path: /etc/motd\n  content: %s\n- path: %s\n  content: |\n    ---\n    apiVersion: kubeadm.k8s.io/v1beta4\n"+
		"    kind: JoinConfiguration\n    discovery:\n      bootstrapToken: {token: %s, apiServerEndpoint: '10.0.0.1:6443'}\n", motd, joinPath, token)
}

func TestTokenRotationsRollNothingOut(t *testing.T) {
	w := newWorld(t, 2)
	w.rewrite(joinData("abcdef.0000000000000000", "hello"))
	w.reconcile()
	w.run()
	before := w.reconcile().Status.Revision
	for i := range 100 {
		w.rewrite(joinData(fmt.Sprintf("abcdef.%016x", i+1), "hello"))
		if _, err := w.Reconcile(ctx, w.request()); err != nil {
			t.Fatal(err)
		}
	}
	pool := w.reconcile()
	if len(w.hostMachines()) != 2 || pool.Status.Revision != before {
		t.Fatalf("%d members, revision %s after %s", len(w.hostMachines()), pool.Status.Revision, before)
	}

	w.rewrite(joinData("abcdef.1111111111111111", "good bye"))
	pool = w.reconcile()
	if pool.Status.Revision == before || ptr.Deref(pool.Status.UpdatedReplicas, 0) != 1 || len(w.hostMachines()) != 3 {
		t.Fatalf("a changed file rolls nothing out: %+v", pool.Status)
	}
	wantReason(t, pool, clusterv1.RollingOutCondition, clusterv1.RollingOutReason, "revision "+before+", wanted "+pool.Status.Revision)
}

// Bootstrap data that can't be read for a moment must neither replace machines nor
// make new ones of an unknown kind.
func TestUnknownBootstrapDataHoldsThePool(t *testing.T) {
	w := newRunning(t, 2, infrav1.HostMachinePoolStrategy{})
	w.rewrite("{}")
	w.scale(3)
	pool := w.reconcile()
	if len(w.hostMachines()) != 2 {
		t.Fatalf("%d members", len(w.hostMachines()))
	}
	wantReason(t, pool, clusterv1.ScalingUpCondition, clusterv1.ScalingUpReason, "Secret bootstrap-workers: the bootstrap data is not a cloud-config")
	wantReason(t, pool, clusterv1.MachinesUpToDateCondition, clusterv1.UpToDateUnknownReason, "Secret bootstrap-workers")
	w.rewrite(testenv.BootstrapData)
	if w.reconcile(); len(w.hostMachines()) != 3 {
		t.Errorf("%d members", len(w.hostMachines()))
	}
}
