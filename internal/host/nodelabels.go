package host

import (
	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// NodeLabels are those that the Node of a host gets when it registers: the failure domain as its
// zone, the region that the host is labelled with, and the labels of the host that keys name.
func NodeLabels(h *infrav1.Host, failureDomain string, keys []infrav1.HostLabelKey) map[string]string {
	wanted := map[string]string{}
	of := Labels(h)
	for _, key := range append([]infrav1.HostLabelKey{corev1.LabelTopologyRegion}, keys...) {
		if value, found := of.Lookup(string(key)); found {
			wanted[string(key)] = value
		}
	}
	if zone := labelValue(failureDomain); zone != "" {
		wanted[corev1.LabelTopologyZone] = zone
	}
	return wanted
}
