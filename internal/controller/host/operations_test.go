package host

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// TestFailedReadForgetsNoOperation holds that the end of an operation counts also when the Host
// could not be read in between, and that a Host that is gone is forgotten.
func TestFailedReadForgetsNoOperation(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := infrav1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	busy := errors.New("the API server is busy")
	var failure error
	r := &Reconciler{Client: fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if failure != nil {
				return failure
			}
			return c.Get(ctx, key, o, opts...)
		},
	}).Build()}
	key := types.NamespacedName{Namespace: "n", Name: "h"}
	running := &infrav1.ObservedOperation{ID: "one", State: infrav1.OperationRunning, StartTime: metav1.Now()}
	ended := &infrav1.ObservedOperation{ID: "one", State: infrav1.OperationSucceeded}
	r.operations.ended(key, running)
	failure = busy
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); !errors.Is(err, busy) {
		t.Fatalf("error %v", err)
	}
	if !r.operations.ended(key, ended) {
		t.Error("the end of an operation does not count after a read that failed")
	}
	failure = nil
	r.operations.ended(key, running)
	now := time.Now()
	r.statuses.Wait(key, true, time.Second, now)
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
		t.Fatal(err)
	}
	if r.operations.ended(key, ended) {
		t.Error("a Host that is gone is remembered")
	}
	if wait := r.statuses.Wait(key, true, time.Second, now.Add(time.Second)); wait != time.Second {
		t.Errorf("the next Host of its name waits %s for its status", wait)
	}
}
