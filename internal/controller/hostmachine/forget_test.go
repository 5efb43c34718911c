package hostmachine

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// TestMachineThatIsGoneIsForgotten holds that nothing is remembered of a machine that is gone, also
// when somebody else removed its finalizer.
func TestMachineThatIsGoneIsForgotten(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := infrav1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	r := &Reconciler{Client: fake.NewClientBuilder().WithScheme(scheme).Build()}
	machine := func(version string) *infrav1.HostMachine {
		return &infrav1.HostMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "m", UID: "u", ResourceVersion: version}}
	}
	key, now := client.ObjectKeyFromObject(machine("1")), time.Now()
	r.machines.Note(machine("1"), machine("2"), struct{}{})
	r.statuses.Wait(key, true, time.Second, now)
	r.unfinished.note(machine("2"), now)
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
		t.Fatal(err)
	}
	if _, stale := r.machines.Over(machine("1")); stale {
		t.Error("its writes are remembered")
	}
	if wait := r.statuses.Wait(key, true, time.Second, now.Add(time.Second)); wait != time.Second {
		t.Errorf("the next one of its name waits %s for its status", wait)
	}
	if _, known := r.unfinished.finish(machine("2"), now); known {
		t.Error("its trace is remembered")
	}
}

// TestTraceIsThatOfTheMachine holds that a machine which was made anew under the same name is not
// taken for the one before.
func TestTraceIsThatOfTheMachine(t *testing.T) {
	var u unfinished
	before := &infrav1.HostMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "m", UID: "before"}}
	after := before.DeepCopy()
	after.UID = "after"
	u.note(before, time.Now())
	if _, known := u.finish(after, time.Now()); known {
		t.Error("it is taken for the machine before")
	}
	begin := time.Now()
	u.note(after, begin)
	if since, known := u.finish(after, begin.Add(time.Second)); !known || !since.Equal(begin.Add(time.Second)) {
		t.Errorf("known %t, provisioned since %s", known, since)
	}
	if _, known := u.finish(after, begin); known {
		t.Error("it ends twice")
	}
}
