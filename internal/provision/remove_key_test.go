package provision_test

import (
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/link/enroll"
	"github.com/slipway-dev/slipway/internal/provision"
)

// A host is the machine that has the key of spec.hostID. A machine-id is copied with a disk, and name and
// namespace are in a file: a machine that has all of these and another key is another machine. Nothing is
// taken off it, and the Host stays, since its own machine has agent and key still.
func TestRemoveAsksForTheKeyOfTheHost(t *testing.T) {
	w := newWorld(t)
	for name, own := range map[string]bool{"its-own-key": true, "a-clones-key": false, "no-key": false} {
		t.Run(name, func(t *testing.T) {
			w := *w
			w.t = t
			b := w.hosted(name)
			const state = "/var/lib/slipway-agent"
			if err := os.Remove(b.path(state + "/identity.key")); err != nil {
				t.Fatal(err)
			}
			id, err := enroll.Identity(b.path(state))
			if err != nil {
				t.Fatal(err)
			}
			if own {
				if err := env.Client.Delete(t.Context(), w.host(name)); err != nil {
					t.Fatal(err)
				}
				h := &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Namespace: w.options.Namespace, Name: name}, Spec: infrav1.HostSpec{HostID: id}}
				if err := env.Client.Create(t.Context(), h); err != nil {
					t.Fatal(err)
				}
				h.Status.Phase, h.Status.Inventory.MachineID = infrav1.HostPhaseAvailable, strings.TrimSpace(b.read("/etc/machine-id"))
				conditions.Set(h, metav1.Condition{Type: infrav1.AgentConnectedCondition, Status: metav1.ConditionTrue, Reason: infrav1.HostHeartbeatFreshReason})
				if err := env.Client.Status().Update(t.Context(), h); err != nil {
					t.Fatal(err)
				}
				w.proved(name)
			}
			if (w.host(name).Spec.HostID == id) != own {
				t.Fatalf("the Host has the ID %s, and the machine's key %s", w.host(name).Spec.HostID, id)
			}
			if name == "no-key" { // a clone that has not enrolled yet
				if err := os.Remove(b.path(state + "/identity.key")); err != nil {
					t.Fatal(err)
				}
			}
			before := b.files()
			results, _ := w.remove(w.removal(), provision.Departure{Name: name, Address: at(b.port)})
			r := results[0]
			if own {
				if r.State != provision.StateRemoved || !w.gone(name) {
					t.Errorf("the host itself was not removed: %+v", r)
				}
				return
			}
			if r.State != provision.StateFailed || r.Reason != provision.ReasonOtherMachine {
				t.Errorf("the machine at the address has another key than spec.hostID, and the result is %s %s %q", r.State, r.Reason, r.Message)
			}
			if b.files() != before {
				t.Error("agent and key were taken off that machine")
			}
			if w.gone(name) {
				t.Error("the Host was deleted, while its own machine has agent and key")
			}
		})
	}
}
