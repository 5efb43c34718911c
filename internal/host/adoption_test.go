package host_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"slices"
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
)

// found is a host on which the agent found what it had not put there.
func found(change ...func(*infrav1.Host)) *infrav1.Host {
	h := free()
	h.Name = "host-1"
	h.Status.CleanProof, h.Status.Residue = nil, []string{"process kubelet (PID 7)"}
	for _, c := range change {
		c(h)
	}
	return h
}

// adopting is such a host that is claimed, with an operation when one is given.
func adopting(state infrav1.OperationState, change ...func(*infrav1.Host)) *infrav1.Host {
	h := claimed(infrav1.HostDesiredAdopted, state, change...)
	h.Spec.Claim.Adopt = ptr.To(true)
	return h
}

func TestUnadoptable(t *testing.T) {
	for name, tc := range map[string]struct {
		host    *infrav1.Host
		away    bool
		reason  string
		message string
	}{
		"node of somebody else": {found(), false, "", ""},
		"claimed":               {claimed(infrav1.HostDesiredBootstrapped, ""), false, infrav1.HostMachineHostTakenReason, "HostMachine m of Cluster c"},
		"clean":                 {free(), false, infrav1.HostMachineNothingToAdoptReason, "there is no node to adopt"},
		"never heard of":        {&infrav1.Host{}, false, infrav1.HostEnrollingReason, "No agent"},
		"unproved, no node":     {found(func(h *infrav1.Host) { h.Status.Residue = nil }), false, infrav1.HostNotCleanReason, "no node to adopt"},
		"agent away":            {found(), true, infrav1.HostAgentNotConnectedReason, "start slipway-agent"},
		"unschedulable":         {found(func(h *infrav1.Host) { h.Spec.Unschedulable = ptr.To(true) }), false, infrav1.HostUnschedulableReason, ""},
		"assigned":              {found(func(h *infrav1.Host) { h.Spec.AssignedNamespace = "team-a" }), false, infrav1.HostAssignedReason, ""},
		"evacuated":             {found(func(h *infrav1.Host) { h.Spec.Evacuate = ptr.To(true) }), false, infrav1.HostEvacuateReason, ""},
		"hook pending": {found(func(h *infrav1.Host) {
			h.Annotations = map[string]string{"runtime.slipway.dev/pending-hooks": "AfterHostRelease"}
		}), false, infrav1.HostWaitingForHookReason, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := host.Unadoptable(tc.host, !tc.away)
			if got.Reason != tc.reason || !strings.Contains(got.Message, tc.message) {
				t.Errorf("got %+v, want %s: %s", got, tc.reason, tc.message)
			}
		})
	}
}

// What is not adopted is never reset, and what is adopted is never just let go.
func TestEndOfAnAdoption(t *testing.T) {
	for name, tc := range map[string]struct {
		host      *infrav1.Host
		withdrawn bool
	}{
		"no operation yet":     {adopting("", func(h *infrav1.Host) { h.Spec.Desired = nil }), true},
		"operation not seen":   {adopting(""), true},
		"at work":              {adopting(infrav1.OperationRunning), true},
		"refused":              {adopting(infrav1.OperationFailed), true},
		"adopted":              {adopting(infrav1.OperationSucceeded), false},
		"adopted, lost report": {adopting("", func(h *infrav1.Host) { h.Spec.Desired.Bootstrapped = ptr.To(true) }), false},
		"upgrading":            {adopting("", func(h *infrav1.Host) { h.Spec.Desired.Phase = infrav1.HostDesiredUpgraded }), false},
		"bootstrapped":         {claimed(infrav1.HostDesiredBootstrapped, ""), false},
	} {
		t.Run(name, func(t *testing.T) {
			if reset := tc.host.DeepCopy(); host.RequestReset(reset, "") == tc.withdrawn {
				t.Errorf("reset requested: %t, %+v", !tc.withdrawn, reset.Spec.Desired)
			}
			h := tc.host.DeepCopy()
			if host.Withdraw(h) != tc.withdrawn || (h.Spec.Claim == nil) != tc.withdrawn {
				t.Errorf("withdrawn: %t, claim %+v", !tc.withdrawn, h.Spec.Claim)
			}
			if refused := host.AdoptionRefused(tc.host); refused != (name == "refused") {
				t.Errorf("refused: %t", refused)
			}
		})
	}
	releasing := adopting(infrav1.OperationSucceeded)
	host.RequestReset(releasing, "")
	if releasing.Status.ObservedOperation = nil; host.Withdraw(releasing) {
		t.Error("a reset that was requested is given up")
	}
}

func certificateAuthority(t *testing.T, name byte) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(int64(name)), IsCA: true}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
}

func TestTrustedCAs(t *testing.T) {
	ours, old, foreign := certificateAuthority(t, 1), certificateAuthority(t, 2), certificateAuthority(t, 3)
	cluster := host.HashCAs(slices.Concat([]byte("# comment\n"), ours, old, ours))
	if len(cluster) != 2 || !strings.HasPrefix(cluster[0], "sha256:") || len(cluster[0]) != len("sha256:")+64 {
		t.Fatalf("hashes %q", cluster)
	}
	for name, tc := range map[string]struct {
		bundle []byte
		hashes []string
		want   []byte
	}{
		"same":          {ours, cluster, ours},
		"one of two":    {slices.Concat(foreign, ours), cluster, ours},
		"other cluster": {foreign, cluster, nil},
		"no hashes":     {ours, nil, nil},
		"no bundle":     {nil, cluster, nil},
		"no PEM":        {[]byte("x"), cluster, nil},
	} {
		if got := host.TrustedCAs(tc.bundle, tc.hashes); string(got) != string(tc.want) {
			t.Errorf("%s: got %q", name, got)
		}
	}
}
