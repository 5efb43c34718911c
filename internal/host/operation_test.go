package host_test

import (
	"testing"

	"k8s.io/utils/ptr"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
)

const (
	oldVersion = "v1.35.4"
	newVersion = "v1.36.3"
)

// running is a bootstrapped host that offers two versions and runs the older one.
func running(change ...func(*infrav1.Host)) *infrav1.Host {
	h := claimed(infrav1.HostDesiredBootstrapped, infrav1.OperationSucceeded)
	h.Spec.Desired.Version, h.Spec.Desired.ProviderID, h.Spec.Desired.VirtualIP = oldVersion, "slipway://ns/h/id", "10.0.0.1"
	h.Status.Inventory.KubernetesVersions = []string{oldVersion, newVersion}
	for _, c := range change {
		c(h)
	}
	return h
}

// report is the agent's word on whatever the host is asked for.
func report(state infrav1.OperationState) func(*infrav1.Host) {
	return func(h *infrav1.Host) {
		h.Status.ObservedOperation = &infrav1.ObservedOperation{
			ID: h.Spec.Desired.OperationID, ClaimID: "id", Phase: h.Spec.Desired.Phase, State: state, Step: "step",
		}
	}
}

func upgrade(h *infrav1.Host) { host.RequestUpgrade(h, newVersion, nil) }

func reboot(h *infrav1.Host) { host.RequestReboot(h, 1, "") }

func drain(h *infrav1.Host) { host.RequestReboot(h, 1, infrav1.RebootDrain) }

func TestRequestUpgrade(t *testing.T) {
	for name, tc := range map[string]struct {
		host      *infrav1.Host
		version   string
		requested bool
	}{
		"running":             {running(), newVersion, true},
		"same version":        {running(), oldVersion, false},
		"no version":          {running(), "", false},
		"not offered":         {running(), "v1.34.0", false},
		"not bootstrapped":    {running(report(infrav1.OperationRunning)), newVersion, false},
		"bootstrap failed":    {running(report(infrav1.OperationFailed)), newVersion, false},
		"requested already":   {running(upgrade), newVersion, false},
		"upgrading elsewhere": {running(upgrade, report(infrav1.OperationRunning)), oldVersion, false},
		"failed":              {running(upgrade, report(infrav1.OperationFailed)), newVersion, false},
		"back after failure":  {running(upgrade, report(infrav1.OperationFailed)), oldVersion, true},
		"rebooting":           {running(reboot, report(infrav1.OperationRunning)), newVersion, false},
		"rebooted":            {running(reboot, report(infrav1.OperationSucceeded)), newVersion, true},
		"drained":             {running(drain, report(infrav1.OperationSucceeded)), newVersion, true},
		"releasing":           {running(func(h *infrav1.Host) { host.RequestReset(h, "") }), newVersion, false},
		"free":                {free(), newVersion, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := host.RequestUpgrade(tc.host, tc.version, nil); got != tc.requested {
				t.Fatalf("requested = %t: %+v", got, tc.host.Spec.Desired)
			}
			if !tc.requested {
				return
			}
			desired := tc.host.Spec.Desired
			if desired.OperationID != "upgrade-id-"+tc.version || desired.Version != tc.version || desired.Phase != infrav1.HostDesiredUpgraded {
				t.Errorf("desired = %+v", desired)
			}
			if desired.ProviderID == "" || desired.VirtualIP == "" || desired.RebootPolicy != "" || !host.Bootstrapped(tc.host) {
				t.Errorf("the operation lost what holds for the claim: %+v", desired)
			}
		})
	}
}

func TestRequestReboot(t *testing.T) {
	for name, tc := range map[string]struct {
		host      *infrav1.Host
		n         int32
		requested bool
		// version that the operation leaves known
		version string
		policy  infrav1.RebootPolicy
	}{
		"overtakes a drain":    {host: running(drain, report(infrav1.OperationRunning)), n: 2, requested: true, version: oldVersion},
		"drains once":          {host: running(drain, report(infrav1.OperationRunning)), n: 2, version: oldVersion, policy: infrav1.RebootDrain},
		"drains later":         {host: running(reboot, report(infrav1.OperationRunning)), n: 2, version: oldVersion, policy: infrav1.RebootDrain},
		"drains":               {host: running(drain, report(infrav1.OperationFailed)), n: 2, requested: true, version: oldVersion, policy: infrav1.RebootDrain},
		"none":                 {running(), 0, false, oldVersion, ""},
		"first":                {running(), 1, true, oldVersion, ""},
		"requested already":    {running(reboot, report(infrav1.OperationSucceeded)), 1, false, oldVersion, ""},
		"second":               {running(reboot, report(infrav1.OperationSucceeded)), 2, true, oldVersion, ""},
		"under way":            {running(reboot, report(infrav1.OperationRunning)), 2, false, oldVersion, ""},
		"not twice":            {running(reboot, report(infrav1.OperationSucceeded), upgrade, report(infrav1.OperationSucceeded)), 1, false, newVersion, ""},
		"in mid upgrade":       {running(upgrade, report(infrav1.OperationRunning)), 1, false, newVersion, ""},
		"after a failed one":   {running(upgrade, report(infrav1.OperationFailed)), 1, true, "", ""},
		"not bootstrapped":     {running(report(infrav1.OperationFailed)), 1, false, oldVersion, ""},
		"after the host reset": {running(func(h *infrav1.Host) { host.RequestReset(h, "") }), 1, false, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := host.RequestReboot(tc.host, tc.n, tc.policy); got != tc.requested {
				t.Fatalf("requested = %t: %+v", got, tc.host.Spec.Desired)
			}
			desired := tc.host.Spec.Desired
			if desired.Version != tc.version {
				t.Errorf("version = %q, want %q", desired.Version, tc.version)
			}
			if tc.requested && (desired.Phase != infrav1.HostDesiredRebooted || ptr.Deref(desired.Reboots, 0) != tc.n || desired.VirtualIP == "" || desired.RebootPolicy != tc.policy) {
				t.Errorf("desired = %+v", desired)
			}
		})
	}
}

// What a failed upgrade left is tried again after a reboot.
func TestUpgradeAgainAfterReboot(t *testing.T) {
	h := running(upgrade, report(infrav1.OperationFailed), reboot)
	if host.RequestUpgrade(h, newVersion, nil) {
		t.Fatal("an upgrade is requested before the reboot is done")
	}
	report(infrav1.OperationSucceeded)(h)
	if got := host.RunningVersion(h); got != "" {
		t.Errorf("version = %s although the upgrade failed", got)
	}
	if !host.RequestUpgrade(h, newVersion, nil) {
		t.Fatal("no upgrade is requested after the reboot")
	}
	report(infrav1.OperationSucceeded)(h)
	if got := host.RunningVersion(h); got != newVersion || ptr.Deref(h.Spec.Desired.Reboots, 0) != 1 {
		t.Errorf("version = %s, desired %+v", got, h.Spec.Desired)
	}
}

func TestOperationIDs(t *testing.T) {
	const claim = "0b7f7e0e-8f6c-4c3e-9d4e-1f2a3b4c5d6e"
	for got, want := range map[string]string{
		host.UpgradeOperationID(claim, newVersion): "upgrade-" + claim + "-v1.36.3",
		host.RebootOperationID(claim, 3):           "reboot-" + claim + "-3",
	} {
		if got != want {
			t.Errorf("ID = %s, want %s", got, want)
		}
	}
}
