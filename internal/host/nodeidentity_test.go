package host

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

func TestNodeIdentityKept(t *testing.T) {
	for name, c := range map[string]struct {
		node     *infrav1.HostNode
		now      []string
		hostName string
		reason   string
		message  string
	}{
		"no node":                     {nil, []string{"10.0.0.5"}, "host-1", "", ""},
		"kept":                        {&infrav1.HostNode{Name: "n", HostName: "host-1", Addresses: []string{"10.0.0.5", "fd00:0::5"}}, []string{"10.0.0.9", "10.0.0.5", "fd00::5"}, "host-1", "", ""},
		"bootstrap under way":         {&infrav1.HostNode{Name: "n", Addresses: []string{"10.0.0.5"}}, []string{"10.0.0.5"}, "host-1", "", ""},
		"the same name as DNS has it": {&infrav1.HostNode{Name: "n", HostName: "host-1", Addresses: []string{"10.0.0.5"}}, []string{"10.0.0.5"}, "HOST-1.", "", ""},
		"with a domain now":           {&infrav1.HostNode{Name: "n", HostName: "host-1", Addresses: []string{"10.0.0.5"}}, []string{"10.0.0.5"}, "host-1.example.com", infrav1.HostRenamedReason, "hostnamectl set-hostname host-1"},
		"renamed":                     {&infrav1.HostNode{Name: "n", HostName: "host-1", Addresses: []string{"10.0.0.5"}}, []string{"10.0.0.5"}, "by-dhcp", infrav1.HostRenamedReason, "hostnamectl set-hostname host-1. Otherwise replace it: kubectl delete machine m -n ns"},
		"another address":             {&infrav1.HostNode{Name: "n", HostName: "host-1", Addresses: []string{"10.0.0.5"}}, []string{"10.0.0.6"}, "by-dhcp", infrav1.HostNodeAddressMissingReason, "does not have 10.0.0.5, the address of Node n; it has 10.0.0.6"},
		"one of two is missing":       {&infrav1.HostNode{Name: "n", Addresses: []string{"10.0.0.5", "fd00::5"}}, []string{"10.0.0.5"}, "host-1", infrav1.HostNodeAddressMissingReason, "fd00::5"},
		"nothing is reported":         {&infrav1.HostNode{Name: "n", Addresses: []string{"10.0.0.5"}}, nil, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := &infrav1.Host{}
			h.Namespace, h.Spec.Claim, h.Status.Node = "ns", &infrav1.HostClaim{MachineName: "m"}, c.node
			if c.hostName != "" {
				h.Status.Addresses = []clusterv1.MachineAddress{{Type: clusterv1.MachineHostName, Address: c.hostName}}
			}
			for _, a := range c.now {
				h.Status.Addresses = append(h.Status.Addresses, clusterv1.MachineAddress{Type: clusterv1.MachineInternalIP, Address: a})
			}
			got := meta.FindStatusCondition(Conditions(h, Facts{}), infrav1.NodeIdentityKeptCondition)
			if c.reason == "" && got == nil {
				return
			}
			if got == nil || got.Reason != c.reason || !strings.Contains(got.Message, c.message) {
				t.Errorf("condition is %+v, want %s with %q", got, c.reason, c.message)
			}
		})
	}
}
