package doctor

import (
	"fmt"

	"k8s.io/utils/ptr"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
)

var _ = register(Check{
	Layer:  Agent + 9,
	Name:   "LowDisk",
	Means:  "a host that is not in use has too little free space for images and pods, as its agent says; the kubelet of a node reports its own disk (`NodeUnwell`)",
	Remedy: "Free space on the host, or grow the file system. A machine that gets the host would have its pods evicted soon.",
	find: func(s *Snapshot) []Finding {
		return each(s.Hosts, func(h *infrav1.Host) (Finding, bool) {
			low := h.Status.LowDisk
			if low == nil || h.Spec.Claim != nil || host.Disconnected(h) {
				return none()
			}
			f := atHost(h, Warning).since(low.Since.Time).next("on the host: du -xh --max-depth=2 /var | sort -h | tail -n 20")
			f.Message = fmt.Sprintf("%d GiB are free below %s: images and pods need at least %d GiB", ptr.Deref(low.FreeGiB, 0), low.Path, low.NeededGiB)
			return f, true
		})
	},
})
