package provision

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// TestHostIsDeletedWhileItIsAwaited holds that `slipway host add` ends when somebody deletes the Host
// that it waits for: its agent never enrolls again by itself.
func TestHostIsDeletedWhileItIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scheme := runtime.NewScheme()
		if err := infrav1.AddToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		h := &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "h"}}
		c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(h).Build()
		a := &addition{run: &run{Options: Options{Client: c, Namespace: "n"}}, course: course{now: time.Now, result: Result{Name: "h"}}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		time.AfterFunc(5*time.Second, func() {
			if err := c.Delete(ctx, h); err != nil {
				t.Error(err)
			}
		})
		var p *Problem
		if err := a.available(ctx); !errors.As(err, &p) || p.Reason != ReasonNotAvailable || !strings.Contains(p.Message, "n/h was deleted") {
			t.Errorf("got %v", err)
		}
	})
}
