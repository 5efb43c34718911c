package change_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/change"
	"github.com/slipway-dev/slipway/internal/testenv"
)

// TestApprove has something happen to the Host after it was looked at and read, and before the
// approval is written.
func TestApprove(t *testing.T) {
	testenv.Skip(t)
	update := func(change func(*infrav1.Host)) func(*testing.T, *infrav1.Host) {
		return func(t *testing.T, h *infrav1.Host) {
			t.Helper()
			change(h)
			if err := env.Client.Update(t.Context(), h); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, tc := range map[string]struct {
		before, after infrav1.HostApproval
		hostID        string
		meanwhile     func(*testing.T, *infrav1.Host)
		refused       string
		patches       int
	}{
		"nothing":      {before: infrav1.HostApprovalPending, hostID: "key", after: infrav1.HostApprovalApproved, patches: 1},
		"a denial":     {before: infrav1.HostApprovalDenied, hostID: "key", after: infrav1.HostApprovalApproved, patches: 1},
		"an old Host":  {before: "", hostID: "key", after: infrav1.HostApprovalApproved, patches: 1},
		"approved":     {before: infrav1.HostApprovalApproved, hostID: "key", after: infrav1.HostApprovalApproved},
		"not enrolled": {before: infrav1.HostApprovalPending, after: infrav1.HostApprovalApproved, patches: 1},
		"its status changes": {
			before: infrav1.HostApprovalPending, hostID: "key", after: infrav1.HostApprovalApproved, patches: 2,
			meanwhile: func(t *testing.T, h *infrav1.Host) {
				h.Status.BootID = "boot-2"
				if err := env.Client.Status().Update(t.Context(), h); err != nil {
					t.Fatal(err)
				}
			},
		},
		"somebody denies it": {
			before: infrav1.HostApprovalPending, hostID: "key", after: infrav1.HostApprovalDenied, patches: 1,
			meanwhile: update(func(h *infrav1.Host) { h.Spec.Approval = infrav1.HostApprovalDenied }),
			refused:   "it is Denied by now, and was Pending",
		},
		"somebody denies an old Host": {
			before: "", hostID: "key", after: infrav1.HostApprovalDenied, patches: 1,
			meanwhile: update(func(h *infrav1.Host) { h.Spec.Approval = infrav1.HostApprovalDenied }),
			refused:   "it is Denied by now, and was without a decision",
		},
		"somebody else approves it": {
			before: infrav1.HostApprovalPending, hostID: "key", after: infrav1.HostApprovalApproved, patches: 1,
			meanwhile: update(func(h *infrav1.Host) { h.Spec.Approval = infrav1.HostApprovalApproved }),
		},
		"a machine enrolls": {
			before: infrav1.HostApprovalPending, after: infrav1.HostApprovalPending, patches: 1,
			meanwhile: update(func(h *infrav1.Host) { h.Spec.HostID = "of-a-thief" }),
			refused:   "another machine has this name now",
		},
		"another Host takes the name": {
			before: infrav1.HostApprovalPending, hostID: "key", after: infrav1.HostApprovalPending, patches: 1,
			meanwhile: func(t *testing.T, h *infrav1.Host) {
				if err := env.Client.Delete(t.Context(), h); err != nil {
					t.Fatal(err)
				}
				again := &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Namespace: h.Namespace, Name: h.Name}, Spec: h.Spec}
				if err := env.Client.Create(t.Context(), again); err != nil {
					t.Fatal(err)
				}
			},
			refused: "another machine has this name now",
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := testenv.NewHost(t, env.Client, env.Namespace(t), "h1", time.Now(), func(h *infrav1.Host) {
				h.Spec.Approval, h.Spec.HostID = tc.before, tc.hostID
			}).Host(t)
			seen, patches := change.Of(h), 0
			c := interceptor.NewClient(env.Client, interceptor.Funcs{
				Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
					if patches++; patches == 1 && tc.meanwhile != nil {
						tc.meanwhile(t, h)
					}
					return c.Patch(ctx, o, patch, options...)
				},
			})
			_, err := change.Approve(t.Context(), c, client.ObjectKeyFromObject(h), seen)
			var changed *change.ChangedError
			switch {
			case tc.refused == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tc.refused != "" && (!errors.As(err, &changed) || !strings.Contains(err.Error(), tc.refused)):
				t.Errorf("got %v, want %s", err, tc.refused)
			}
			now := &infrav1.Host{}
			if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(h), now); err != nil {
				t.Fatal(err)
			}
			if now.Spec.Approval != tc.after || patches != tc.patches {
				t.Errorf("the host is %q after %d patches, want %q after %d", now.Spec.Approval, patches, tc.after, tc.patches)
			}
		})
	}
}
