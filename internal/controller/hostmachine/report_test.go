package hostmachine

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/reconciler"
)

// TestConflictOfTheFinalizerIsNoError holds that a machine which somebody else changed while its
// finalizer is taken off is reconciled again soon, without an error.
func TestConflictOfTheFinalizerIsNoError(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := infrav1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "hostmachines"}, "m", errors.New("changed meanwhile"))
	c := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return conflict
		},
	}).Build()
	m := &infrav1.HostMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "m", Finalizers: []string{infrav1.HostMachineFinalizer}}}
	s := newScope(c, m, nil)
	s.partial = true
	m.Finalizers = nil
	r := &Reconciler{Client: c, Clock: testclock.NewFakeClock(time.Now())}
	result, err := r.report(t.Context(), s, ctrl.Result{}, nil)
	if err != nil || result.RequeueAfter != reconciler.ConflictRetry {
		t.Errorf("%+v, %v", result, err)
	}
	if result, err := r.report(t.Context(), s, ctrl.Result{}, errors.New("broken")); err == nil || result != (ctrl.Result{}) {
		t.Errorf("after another error: %+v, %v", result, err)
	}
}
