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
		{"nobody hands it over", host.MoveFacts{Connected: true, Told: true}, false, host.ReasonNoHandOver, infrav1.HandOverSecretName},
		{"nobody hands it over, away", host.MoveFacts{Told: true}, false, host.ReasonNoHandOver, "not connected"},
		{"nobody hands it over, away since before the key", host.MoveFacts{}, false, host.ReasonNoHandOver, infrav1.HandOverSecretName},
		{"not signed", host.MoveFacts{Connected: true, Told: true, HandOver: unsigned}, false, host.ReasonHandOverRefused, ""},
		{"not signed, away", host.MoveFacts{Told: true, HandOver: unsigned}, false, host.ReasonHandOverRefused, ""},
		{"away", host.MoveFacts{Told: true, HandOver: signed}, true, host.ReasonHandedOverLater, "when it returns"},
		{"away since before the key", host.MoveFacts{HandOver: signed}, true, host.ReasonHandOverByHand, "bring it a bootstrap kubeconfig"},
		{"by hand", host.MoveFacts{Connected: true, HandOver: byHand}, true, host.ReasonHandOverByHand, ""},
		{"by hand, away", host.MoveFacts{Told: true, HandOver: byHand}, true, host.ReasonHandedOverLater, ""},
		{"has not answered", host.MoveFacts{Connected: true, HandOver: signed}, false, host.ReasonHandOverPending, ""},
		{"has answered to another", host.MoveFacts{Connected: true, HandOver: signed, Report: host.HandOverReport{Revision: "r"}}, false, host.ReasonHandOverPending, ""},
		{"its token has expired", host.MoveFacts{Connected: true, HandOver: signed, Report: expired}, false, host.ReasonHandOverPending, "does not accept the token"},
		{"ready", host.MoveFacts{Connected: true, HandOver: signed, Report: ready}, true, host.ReasonReadyToMove, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := host.ReadyToMove(&infrav1.Host{}, c.facts)
			if (got.Status == metav1.ConditionTrue) != c.ready || got.Reason != c.reason || !strings.Contains(got.Message, c.tells) {
				t.Errorf("got %+v", got)
			}
		})
	}
}
