package hostcluster

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// EndpointHeld is what people and doctor go by: it is true once the API server answers at the
// address and the port, as the host that holds the address found.
func TestHeldMeansThatTheAPIServerAnswers(t *testing.T) {
	const yes, no = infrav1.VirtualIPAPIServerAnswering, infrav1.VirtualIPAPIServerNotAnswering
	held, standby := infrav1.VirtualIPHeld, infrav1.VirtualIPStandby
	report := func(state infrav1.VirtualIPState, port int32, answer infrav1.VirtualIPAPIServer, message string) infrav1.VirtualIPStatus {
		return infrav1.VirtualIPStatus{Address: "fd00::9", State: state, Term: 1, Port: port, APIServer: answer, Message: message}
	}
	for name, c := range map[string]struct {
		reports  []infrav1.VirtualIPStatus
		status   metav1.ConditionStatus
		reason   string
		messages []string
	}{
		"it answers": {[]infrav1.VirtualIPStatus{report(held, 443, yes, "")}, metav1.ConditionTrue, "Held", []string{"[fd00::9]:443", "h0 holds"}},
		"it answers, and another host has the wrong port": {[]infrav1.VirtualIPStatus{report(held, 443, yes, ""), report(standby, 443, no, "listens at port 6443: bindPort")},
			metav1.ConditionTrue, "Held", []string{"[fd00::9]:443", "h1: listens at port 6443: bindPort"}},
		"it is not known yet":        {[]infrav1.VirtualIPStatus{report(held, 443, "", "")}, metav1.ConditionFalse, "APIServerNotAnswering", []string{"h0 holds fd00::9", "[fd00::9]:443 yet"}},
		"kubeadm init takes long":    {[]infrav1.VirtualIPStatus{report(held, 443, no, "")}, metav1.ConditionFalse, "APIServerNotAnswering", []string{"[fd00::9]:443 yet"}},
		"it does not answer":         {[]infrav1.VirtualIPStatus{report(held, 443, no, "bindPort")}, metav1.ConditionFalse, "APIServerNotAnswering", []string{"[fd00::9]:443; h0: bindPort"}},
		"no host can serve":          {[]infrav1.VirtualIPStatus{report(standby, 443, no, "bindPort")}, metav1.ConditionFalse, "APIServerNotAnswering", []string{"No API server answers at [fd00::9]:443", "h0: bindPort"}},
		"no host is elected":         {[]infrav1.VirtualIPStatus{report(standby, 443, "", ""), report(standby, 443, no, "bindPort")}, metav1.ConditionFalse, "NotHeld", []string{"h1: bindPort"}},
		"an earlier version's host":  {[]infrav1.VirtualIPStatus{report(held, 0, "", "")}, metav1.ConditionUnknown, "NotChecked", []string{"h0 holds fd00::9"}},
		"it answers at another port": {[]infrav1.VirtualIPStatus{report(held, 6443, yes, "")}, metav1.ConditionUnknown, "NotChecked", []string{"h0 holds fd00::9", "does not check whether an API server answers at [fd00::9]:443"}},
	} {
		var all []candidate
		for i := range c.reports {
			all = append(all, candidate{host: fmt.Sprintf("h%d", i), report: c.reports[i], connected: true})
		}
		got := heldCondition(clusterv1.APIEndpoint{Host: "fd00::9", Port: 443}, all, nil)
		if got.Status != c.status || got.Reason != c.reason {
			t.Errorf("%s: EndpointHeld is %+v, want %s %s", name, got, c.status, c.reason)
		}
		for _, m := range c.messages {
			if !strings.Contains(got.Message, m) {
				t.Errorf("%s: the message is %q, want %q in it", name, got.Message, m)
			}
		}
		if says := strings.Contains(got.Message, "and the API server answers at"); says != (c.status == metav1.ConditionTrue) {
			t.Errorf("%s: the message is %q", name, got.Message)
		}
	}
}

func TestCandidatesOfAnAddressInAnotherText(t *testing.T) {
	h := infrav1.Host{Spec: infrav1.HostSpec{Claim: &infrav1.HostClaim{ClusterName: "c"}}, Status: infrav1.HostStatus{VirtualIP: &infrav1.VirtualIPStatus{Address: "fd00::9"}}}
	for endpoint, want := range map[string]int{"fd00:0:0::9": 1, "FD00::9": 1, "fd00::90": 0, "api.example": 0} {
		if got := candidates([]infrav1.Host{h}, "c", endpoint); len(got) != want {
			t.Errorf("%s: %d candidates, want %d", endpoint, len(got), want)
		}
	}
}

// Terms begin anew when somebody deletes the Lease: the last report of a host that is away, of a higher
// one, does not hide who has the address now.
func TestHolderThatIsConnectedCounts(t *testing.T) {
	c := func(host string, state infrav1.VirtualIPState, term int32, connected bool) candidate {
		return candidate{host: host, connected: connected, report: infrav1.VirtualIPStatus{State: state, Term: term}}
	}
	held := infrav1.VirtualIPHeld
	for name, tc := range map[string]struct {
		all  []candidate
		want string
	}{
		"of two terms the newest":          {[]candidate{c("a", held, 3, true), c("b", held, 2, true)}, "a"},
		"away, of a higher term":           {[]candidate{c("a", held, 7, false), c("b", held, 1, true)}, "b"},
		"the same, sorted otherwise":       {[]candidate{c("b", held, 1, true), c("a", held, 7, false)}, "b"},
		"away, of the highest term":        {[]candidate{c("a", held, 6, false), c("b", held, 7, false)}, "b"},
		"away, and the others have it not": {[]candidate{c("a", held, 6, false), c("b", infrav1.VirtualIPStandby, 7, true)}, "a"},
	} {
		if got := holderOf(tc.all); got == nil || got.host != tc.want {
			t.Errorf("%s: %+v, want %s", name, got, tc.want)
		}
	}
}
