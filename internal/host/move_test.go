package host_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
)

func TestReadyToMove(t *testing.T) {
	signed, unsigned, byHand := &host.HandOver{Kubeconfig: []byte("k"), Signature: []byte("s")}, &host.HandOver{Kubeconfig: []byte("k")}, &host.HandOver{}
	ready, expired := host.HandOverReport{Revision: signed.Revision()}, host.HandOverReport{Revision: signed.Revision(), Waiting: "does not accept the token"}
	for _, c := range []struct {
		name   string
		facts  host.MoveFacts
		ready  bool
		reason string
		tells  string
	}{
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
			got := host.ReadyToMove(&infrav1.Host{}, c.facts)
			if (got.Status == metav1.ConditionTrue) != c.ready || got.Reason != c.reason || !strings.Contains(got.Message, c.tells) {
				t.Errorf("got %+v", got)
			}
		})
	}
}
