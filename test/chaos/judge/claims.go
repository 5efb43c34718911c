package judge

import (
	"fmt"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// claimed says whether a host has a claim that it had not before.
func claimed(before, after *infrav1.Host) bool {
	if after == nil || after.Spec.Claim == nil {
		return false
	}
	return before == nil || before.Spec.Claim == nil || before.Spec.Claim.ClaimID != after.Spec.Claim.ClaimID
}

// oneMachinePerHost: a host is taken again only once its former HostMachine and Machine
// are gone: core deletes a Node last, by its name.
func oneMachinePerHost(Limits) rule {
	return func(w *world, c change) []finding {
		if before, after, ok := versions[*infrav1.Host](c); ok {
			if !claimed(before, after) {
				return nil
			}
			return othersNaming(w, after.Name, after.Spec.Claim.MachineName)
		}
		before, after, ok := versions[*infrav1.HostMachine](c)
		if !ok || after == nil || hostOf(after.Spec.ProviderID) == "" || (before != nil && before.Spec.ProviderID == after.Spec.ProviderID) {
			return nil
		}
		return othersNaming(w, hostOf(after.Spec.ProviderID), after.Name)
	}
}

// othersNaming are the machines that name a host, but for the one of a name.
func othersNaming(w *world, host, machine string) []finding {
	var findings []finding
	for _, m := range w.hostMachines {
		if m.Name != machine && hostOf(m.Spec.ProviderID) == host {
			findings = append(findings, finding{fmt.Sprintf("%s is of HostMachine %s while HostMachine %s names it", host, machine, m.Name), []string{host}})
		}
	}
	for _, m := range w.machines {
		if m.Spec.InfrastructureRef.Name != machine && hostOf(m.Spec.ProviderID) == host {
			findings = append(findings, finding{fmt.Sprintf("%s is of HostMachine %s while Machine %s names it", host, machine, m.Name), []string{host}})
		}
	}
	return findings
}

// oneHostPerClaim: a machine has one host for life.
func oneHostPerClaim(Limits) rule {
	return func(w *world, c change) []finding {
		before, after, ok := versions[*infrav1.Host](c)
		if !ok || !claimed(before, after) {
			return nil
		}
		var findings []finding
		for _, other := range w.hosts {
			if other.Name != after.Name && other.Spec.Claim != nil && other.Spec.Claim.ClaimID == after.Spec.Claim.ClaimID {
				findings = append(findings, finding{
					fmt.Sprintf("%s and %s carry claim %s of HostMachine %s", other.Name, after.Name, after.Spec.Claim.ClaimID, after.Spec.Claim.MachineName),
					[]string{other.Name, after.Name},
				})
			}
		}
		return findings
	}
}

// claimsEnd: a claim is cleared before the host is claimed again.
func claimsEnd(Limits) rule {
	return func(_ *world, c change) []finding {
		before, after, ok := versions[*infrav1.Host](c)
		if !ok || before == nil || before.Spec.Claim == nil || c.Unseen || !claimed(before, after) {
			return nil
		}
		return []finding{{
			fmt.Sprintf("the claim of %s passed from HostMachine %s to %s", after.Name, before.Spec.Claim.MachineName, after.Spec.Claim.MachineName),
			[]string{after.Name},
		}}
	}
}

// resetBetweenClaims: who takes a host has the proof that it is clean of the claim before,
// by its agent or by the word of an operator.
func resetBetweenClaims(Limits) rule {
	return func(_ *world, c change) []finding {
		before, after, ok := versions[*infrav1.Host](c)
		// Of a host that is new to the history nobody knows how it got its claim.
		if !ok || before == nil || after == nil || !claimed(before, after) {
			return nil
		}
		former := after.Spec.ClaimGeneration - 1
		proved := after.Status.CleanProof != nil && after.Status.CleanProof.ClaimGeneration == former
		cleared := after.Spec.ClearedGeneration != nil && *after.Spec.ClearedGeneration == former
		if proved || cleared || (after.Spec.Claim.Adopt != nil && *after.Spec.Claim.Adopt) {
			return nil
		}
		return []finding{{
			fmt.Sprintf("%s has claim %d, of HostMachine %s, without a proof that it is clean of claim %d", after.Name, after.Spec.ClaimGeneration, after.Spec.Claim.MachineName, former),
			[]string{after.Name},
		}}
	}
}
