package judge

import (
	"fmt"
	"slices"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// listFollowsMachines: core deletes the Node of a providerID that leaves the list.
func listFollowsMachines(Limits) rule {
	return func(w *world, c change) []finding {
		before, after, ok := versions[*infrav1.HostMachinePool](c)
		if !ok || before == nil || after == nil {
			return nil
		}
		var findings []finding
		for _, id := range before.Spec.ProviderIDList {
			if m := w.machineOf(id); m != nil && !slices.Contains(after.Spec.ProviderIDList, id) {
				findings = append(findings, finding{
					fmt.Sprintf("%s left the list of HostMachinePool %s while HostMachine %s was there", id, after.Name, m.Name), []string{hostOf(id)},
				})
			}
		}
		return findings
	}
}
