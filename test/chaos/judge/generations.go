package judge

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// neverFalls: agents obey by claimGeneration, and of two hosts that hold an address the
// later term is right: one that does not hold it knows of no term when it has just booted.
// A Host that was deleted begins anew.
func neverFalls(Limits) rule {
	terms, proofs := map[string]int32{}, map[string]proofs{}
	return func(_ *world, c change) []finding {
		before, after, ok := versions[*infrav1.Host](c)
		if !ok || after == nil {
			return nil
		}
		findings := slices.Concat(termFell(terms, after), proofFell(proofs, after))
		if before == nil || before.UID != after.UID {
			return findings
		}
		if from, to := before.Spec.ClaimGeneration, after.Spec.ClaimGeneration; to < from {
			findings = append(findings, finding{fmt.Sprintf("claimGeneration of %s fell from %d to %d", after.Name, from, to), []string{after.Name}})
		} else if to == from && claimed(before, after) {
			findings = append(findings, finding{fmt.Sprintf("%s has a new claim with claimGeneration %d of the one before", after.Name, to), []string{after.Name}})
		}
		return findings
	}
}

// proofs are those that the agent of a host gave.
type proofs struct {
	// host they were given to: a new UID is a new Host.
	host types.UID
	// newest generation that was proved to that Host; nil before the first proof.
	newest *int64
	// again says that there was another Host before.
	again bool
}

// proofFell compares the proof of a host with the last one of that Host. An agent that is
// enrolled again brings along its proof of the Host before, which says nothing of the new
// one, until it has given the first of its own.
func proofFell(all map[string]proofs, h *infrav1.Host) []finding {
	known, seen := all[h.Name]
	if known.host != h.UID {
		known = proofs{host: h.UID, again: seen}
	}
	defer func() { all[h.Name] = known }()
	if h.Status.CleanProof == nil {
		return nil
	}
	proved := h.Status.CleanProof.ClaimGeneration
	switch {
	case proved > h.Spec.ClaimGeneration && known.again && known.newest == nil:
		return nil
	case proved > h.Spec.ClaimGeneration:
		return []finding{{fmt.Sprintf("the proof of %s is of generation %d, and its claimGeneration is %d", h.Name, proved, h.Spec.ClaimGeneration), []string{h.Name}}}
	case known.newest != nil && proved < *known.newest:
		return []finding{{fmt.Sprintf("the generation of the proof of %s fell from %d to %d", h.Name, *known.newest, proved), []string{h.Name}}}
	}
	known.newest = &proved
	return nil
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
