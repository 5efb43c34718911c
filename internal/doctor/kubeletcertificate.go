package doctor

import (
	"fmt"
	"time"

	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

var _ = register(Check{
	Layer:  Agent + 8,
	Name:   "KubeletCertificateExpires",
	Means:  "the kubelet of a node has not renewed its certificate in time, as the agent of its host says; an error once it has ended",
	Remedy: "Restart the kubelet and read its journal: requests for certificates of the cluster must be approved and signed, by its kube-controller-manager. A kubelet whose certificate has ended cannot request another: replace its Machine.",
	find: func(s *Snapshot) []Finding {
		machines := s.MachinesOnHosts()
		return each(s.Hosts, func(h *infrav1.Host) (Finding, bool) {
			expires := h.Status.KubeletCertificateExpires
			if expires == nil || !serves(h) {
				return none()
			}
			f := atHost(h, Warning).next("on the host: systemctl restart kubelet")
			f.Message = fmt.Sprintf("the certificate of the kubelet ends at %s, and was to be renewed before", expires.UTC().Format(time.RFC3339))
			if expires.After(s.Now) {
				return f, true
			}
			f.Severity, f.Message = Error, fmt.Sprintf("the certificate of the kubelet ended at %s", expires.UTC().Format(time.RFC3339))
			f = f.describe() // without a machine of the control plane its cluster may end
			if m := machines[client.ObjectKey{Namespace: h.Namespace, Name: h.Spec.Claim.MachineName}]; m != nil && !util.IsControlPlaneMachine(m) {
				f = f.next("kubectl delete machine %s -n %s", m.Name, m.Namespace)
			}
			return f.since(expires.Time), true
		})
	},
})
