package doctor

import (
	"fmt"
	"strings"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
)

var _ = register(Check{
	Layer:  Housekeeping + 7,
	Name:   "RebootRequired",
	Effect: Remark,
	Means:  "updates of a host's operating system, such as a newer kernel, take effect with its next reboot, as its agent says",
	Remedy: "Reboot it when its pods may go: with --drain they are evicted first.",
	find: func(s *Snapshot) []Finding {
		return each(s.Hosts, func(h *infrav1.Host) (Finding, bool) {
			required := h.Status.RebootRequired
			if required == nil || host.Disconnected(h) {
				return none()
			}
			f := atHost(h, Note).since(required.Since.Time).next("slipway host reboot %s --drain -n %s", h.Name, h.Namespace)
			if h.Spec.Claim == nil {
				f = f.next("on the host: systemctl reboot")
			}
			var why []string
			if required.KernelVersion != "" {
				why = append(why, fmt.Sprintf("kernel %s is installed, %s runs", required.KernelVersion, h.Status.Inventory.KernelVersion))
			}
			if len(required.Packages) > 0 {
				why = append(why, "updated are "+some(required.Packages))
			}
			f.Message = strings.Join(append([]string{"its operating system asks for a reboot"}, why...), "; ")
			return f, true
		})
	},
})

// most is how many packages a message names.
const most = 5

func some(packages []string) string {
	if more := len(packages) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(packages[:most], ", "), more)
	}
	return strings.Join(packages, ", ")
}
