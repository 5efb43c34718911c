package hostmachinepool

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// etcd refuses objects of 1.5 MiB. A pool of 5,000 whose names are all as long as
// they may be stays below 1 MiB, as its instances are capped.
func TestLargePoolFitsIntoEtcd(t *testing.T) {
	const members, limit = 5000, 1 << 20
	namespace, name := strings.Repeat("n", 63), strings.Repeat("p", maxPrefix)
	pool := &infrav1.HostMachinePool{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	machinePool := &clusterv1.MachinePool{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	machinePool.Spec.Replicas = ptr.To[int32](members)
	s := newScope(pool, machinePool, nil)
	for i := range members {
		host, claimID := fmt.Sprintf("%059d%04d", 0, i), fmt.Sprintf("00000000-0000-0000-0000-%012d", i)
		machine := infrav1.HostMachine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s-%05d", name, i)}}
		machine.Spec.ClaimID, machine.Spec.ProviderID = claimID, infrav1.ProviderID(namespace, host, claimID)
		machine.Status.HostRef.Name = host
		machine.Status.Initialization.Provisioned = ptr.To(true)
		for n := range 4 {
			machine.Status.Addresses = append(machine.Status.Addresses, clusterv1.MachineAddress{
				Type: clusterv1.MachineInternalIP, Address: fmt.Sprintf("2001:0db8:0000:0000:0000:0000:%04x:%04x", n, i),
			})
		}
		s.hostMachines = append(s.hostMachines, machine)
	}
	pool.Spec.ProviderID, pool.Spec.ProviderIDList = poolID(pool), providerIDs(s.hostMachines)
	(&Reconciler{Recorder: &events.FakeRecorder{}}).describe(s, members)
	body, err := json.Marshal(pool)
	if err != nil {
		t.Fatal(err)
	}
	if len(pool.Spec.ProviderIDList) != members || len(body) > limit {
		t.Errorf("%d bytes for %d members, want at most %d", len(body), len(pool.Spec.ProviderIDList), limit)
	}
	if len(pool.Status.Instances) != infrav1.MaxInstances {
		t.Errorf("%d instances, want %d", len(pool.Status.Instances), infrav1.MaxInstances)
	}
	t.Logf("%d bytes", len(body))
}
