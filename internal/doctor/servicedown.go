package doctor

import (
	"fmt"
	"time"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

var _ = register(Check{
	Layer:  Agent + 8,
	Name:   "ServiceDown",
	Means:  "the kubelet or containerd of a node does not run, as the agent of its host says; a note at first, a warning after a minute, an error after five",
	Remedy: "Start it on the host. If it ends again, its journal there says why.",
	find: func(s *Snapshot) []Finding {
		return each(s.Hosts, func(h *infrav1.Host) (Finding, bool) {
			if !serves(h) {
				return none()
			}
			for i := range h.Status.Services {
				service := &h.Status.Services[i]
				if service.State == "active" {
					continue
				}
				f := atHost(h, s.severityOn(h, service.Since.Time)).since(service.Since.Time).next("on the host: systemctl restart %s", service.Name)
				f.Message = fmt.Sprintf("%s of the host is %s since %s", service.Name, service.State, service.Since.UTC().Format(time.RFC3339))
				return f, true
			}
			return none()
		})
	},
})
