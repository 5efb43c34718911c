package host

import (
	"context"
	"errors"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// TestNoResultBesideAnError holds that what is polled fails without a time to look again:
// controller-runtime ignores it beside an error, and warns each time.
func TestNoResultBesideAnError(t *testing.T) {
	busy := errors.New("the API server is busy")
	r := &CSRReconciler{Client: fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return busy
		},
	}).Build()}
	of := &request{namespace: "n", name: "h", user: infrav1.AgentUser("n", "h", "key"), handedOver: true}
	for name, do := range map[string]func() (ctrl.Result, error){
		"an agent that was handed over": func() (ctrl.Result, error) {
			return r.answer(t.Context(), &certificatesv1.CertificateSigningRequest{}, of)
		},
		"a token that is used up": func() (ctrl.Result, error) { return r.retire(t.Context(), of) },
	} {
		if result, err := do(); !errors.Is(err, busy) || result != (ctrl.Result{}) {
			t.Errorf("%s: %+v, %v", name, result, err)
		}
	}
}
