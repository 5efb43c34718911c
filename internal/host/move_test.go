package host_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
)

// moveCase is what is known of the host h, and what ReadyToMove is to make of it.
type moveCase struct {
	name   string
	facts  host.MoveFacts
	ready  bool
	reason string
	tells  string
}

func (c moveCase) check(t *testing.T, approval infrav1.HostApproval) {
	t.Helper()
	h := &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "h"}, Spec: infrav1.HostSpec{Approval: approval}}
	got := host.ReadyToMove(h, c.facts)
	if (got.Status == metav1.ConditionTrue) != c.ready || got.Reason != c.reason || !strings.Contains(got.Message, c.tells) {
		t.Errorf("got %+v", got)
	}
}

func TestReadyToMove(t *testing.T) {
	signed, unsigned, byHand := &host.HandOver{Kubeconfig: []byte("k"), Signature: []byte("s")}, &host.HandOver{Kubeconfig: []byte("k")}, &host.HandOver{}
	ready, expired := host.HandOverReport{Revision: signed.Revision()}, host.HandOverReport{Revision: signed.Revision(), Waiting: "does not accept the token"}
	for _, c := range []moveCase{
		{"nobody hands it over", host.MoveFacts{Connected: true, Told: true}, false, infrav1.HostNoHandOverReason, infrav1.HandOverSecretName},
		{"nobody hands it over, away", host.MoveFacts{Told: true}, false, infrav1.HostNoHandOverReason, "not connected"},
		{"nobody hands it over, away since before the key", host.MoveFacts{}, false, infrav1.HostNoHandOverReason, infrav1.HandOverSecretName},
		{"not signed", host.MoveFacts{Connected: true, Told: true, HandOver: unsigned}, false, infrav1.HostHandOverNotSignedReason, ""},
		{"not signed, away", host.MoveFacts{Told: true, HandOver: unsigned}, false, infrav1.HostHandOverNotSignedReason, ""},
		{"away", host.MoveFacts{Told: true, HandOver: signed}, true, infrav1.HostAgentNotConnectedReason, "when it returns"},
		{"away since before the key", host.MoveFacts{HandOver: signed}, true, infrav1.HostHandOverByHandReason, "bring it a bootstrap kubeconfig"},
		{"by hand", host.MoveFacts{Connected: true, HandOver: byHand}, true, infrav1.HostHandOverByHandReason, ""},
		{"by hand, away", host.MoveFacts{Told: true, HandOver: byHand}, true, infrav1.HostAgentNotConnectedReason, ""},
		{"has not answered", host.MoveFacts{Connected: true, HandOver: signed}, false, infrav1.HostHandOverPendingReason, ""},
		{"has answered to another", host.MoveFacts{Connected: true, HandOver: signed, Report: host.HandOverReport{Revision: "r"}}, false, infrav1.HostHandOverPendingReason, ""},
		{"its token has expired", host.MoveFacts{Connected: true, HandOver: signed, Report: expired}, false, infrav1.HostHandOverPendingReason, "does not accept the token"},
		{"ready", host.MoveFacts{Connected: true, HandOver: signed, Report: ready}, true, infrav1.HostReadyToMoveReason, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.check(t, infrav1.HostApprovalApproved)
		})
	}
}

// The agent of a host that is not approved may not read the hand-over: whoever moves it is
// told what to do, and not what the agent cannot.
func TestReadyToMoveUnlessApproved(t *testing.T) {
	const approve = "slipway host approve h -n ns"
	signed, unsigned, byHand := &host.HandOver{Kubeconfig: []byte("k"), Signature: []byte("s")}, &host.HandOver{Kubeconfig: []byte("k")}, &host.HandOver{}
	ready, forbidden := host.HandOverReport{Revision: signed.Revision()}, host.HandOverReport{Revision: signed.Revision(), Waiting: "read Secret slipway-hand-over: forbidden"}
	for _, c := range []moveCase{
		{"connected", host.MoveFacts{Connected: true, Told: true, HandOver: signed, Report: forbidden}, false, infrav1.HostHandOverPendingReason, approve},
		{"has the hand-over from before", host.MoveFacts{Connected: true, Told: true, HandOver: signed, Report: ready}, false, infrav1.HostHandOverPendingReason, approve},
		{"away", host.MoveFacts{Told: true, HandOver: signed}, true, infrav1.HostHandOverByHandReason, approve},
		{"by hand", host.MoveFacts{Connected: true, HandOver: byHand}, true, infrav1.HostHandOverByHandReason, "The operator brings"},
		{"by hand, away", host.MoveFacts{Told: true, HandOver: byHand}, true, infrav1.HostAgentNotConnectedReason, ""},
		{"not signed", host.MoveFacts{Connected: true, HandOver: unsigned}, false, infrav1.HostHandOverNotSignedReason, ""},
	} {
		for _, approval := range []infrav1.HostApproval{infrav1.HostApprovalPending, infrav1.HostApprovalDenied} {
			t.Run(string(approval)+", "+c.name, func(t *testing.T) {
				c.check(t, approval)
			})
		}
	}
}
