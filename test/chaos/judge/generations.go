package judge

import (
	"fmt"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// neverFalls: agents obey by claimGeneration, and of two hosts that hold an address the
// later term is right: one that does not hold it knows of no term when it has just booted.
// A Host that was deleted begins anew.
func neverFalls(Limits) rule {
	terms := map[string]int32{}
	return func(_ *world, c change) []finding {
		before, after, ok := versions[*infrav1.Host](c)
		if !ok || after == nil {
			return nil
		}
		findings := termFell(terms, after)
		if before == nil || before.UID != after.UID {
			return findings
		}
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
		return findings
	}
}

// termFell compares the term with which a host holds the address of its cluster with the
// last one of that host.
func termFell(terms map[string]int32, h *infrav1.Host) []finding {
	v := h.Status.VirtualIP
	if v == nil || v.State != infrav1.VirtualIPHeld || h.Spec.Claim == nil {
		return nil
	}
	key := h.Name + " " + h.Spec.Claim.ClaimID
	former := terms[key]
	terms[key] = v.Term
	if v.Term >= former {
		return nil
	}
	return []finding{{fmt.Sprintf("the term with which %s holds %s fell from %d to %d", h.Name, v.Address, former, v.Term), []string{h.Name}}}
}
