package console

import (
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// TestVersionOfAPoolIsThatOfItsMachinePool holds that the MachinePool of another provider's pool
// with the same name does not count.
func TestVersionOfAPoolIsThatOfItsMachinePool(t *testing.T) {
	key := func(name string) client.ObjectKey { return client.ObjectKey{Namespace: "n", Name: name} }
	pool := func(group, kind, name, version string) (p clusterv1.MachinePool) {
		p.Namespace = "n"
		p.Spec.Template.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: group, Kind: kind, Name: name}
		p.Spec.Template.Spec.Version = version
		return p
	}
	pools := []clusterv1.MachinePool{
		pool("infrastructure.example.com", "HostMachinePool", "workers", "v1"),
		pool(infrav1.GroupVersion.Group, "OtherPool", "workers", "v2"),
		pool(infrav1.GroupVersion.Group, "HostMachinePool", "others", "v3"),
		pool(infrav1.GroupVersion.Group, "HostMachinePool", "workers", "v4"),
		pool("infrastructure.example.com", "HostMachinePool", "workers", "v5"),
	}
	if got := versionOf(key("workers"), pools); got != "v4" {
		t.Errorf("the version is %q, want v4", got)
	}
	if got := versionOf(client.ObjectKey{Namespace: "other", Name: "workers"}, pools); got != "" {
		t.Errorf("in another namespace the version is %q", got)
	}
	if got := versionOf(key("none"), pools); got != "" {
		t.Errorf("without a MachinePool the version is %q", got)
	}
}
