package judge

import (
	"fmt"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// neverFalls: agents obey by claimGeneration, and of two hosts that say they hold an
// address the later term is right. A Host that was deleted begins anew.
func neverFalls(Limits) rule {
	return func(_ *world, c change) []finding {
		before, after, ok := versions[*infrav1.Host](c)
		if !ok || before == nil || after == nil || before.UID != after.UID {
			return nil
		}
		var findings []finding
		fell := func(what string, from, to int64) {
			findings = append(findings, finding{fmt.Sprintf("%s of %s fell from %d to %d", what, after.Name, from, to), []string{after.Name}})
		}
		if from, to := before.Spec.ClaimGeneration, after.Spec.ClaimGeneration; to < from {
			fell("claimGeneration", from, to)
		} else if to == from && claimed(before, after) {
			findings = append(findings, finding{fmt.Sprintf("%s has a new claim with claimGeneration %d of the one before", after.Name, to), []string{after.Name}})
		}
		if from, to := before.Status.CleanProof, after.Status.CleanProof; from != nil && to != nil && to.ClaimGeneration < from.ClaimGeneration {
			fell("the generation of the proof", from.ClaimGeneration, to.ClaimGeneration)
		}
		from, to := before.Status.VirtualIP, after.Status.VirtualIP
		if from != nil && to != nil && from.Address == to.Address && to.Term < from.Term && !claimed(before, after) {
			fell("the term of the control-plane address", int64(from.Term), int64(to.Term))
		}
		return findings
	}
}
