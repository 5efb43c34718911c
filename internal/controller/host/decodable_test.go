package host_test

import (
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv"
)

// The agent of a host may write its status. A value there that Go cannot decode would fail
// every List and every informer of all Hosts: the API server refuses it.
func TestOneHostsStatusStopsNoOther(t *testing.T) {
	testenv.Skip(t)
	t.Parallel()
	namespace := env.Namespace(t)
	one := testenv.NewHost(t, env.Client, namespace, "host-1", time.Now())
	testenv.NewHost(t, env.Client, namespace, "host-2", time.Now())
	host := &infrav1.Host{}
	host.Namespace, host.Name = one.Key.Namespace, one.Key.Name
	step := `{"observedOperation":{"id":"a","claimID":"c","phase":"Bootstrapped","state":"Running","steps":[{"name":"kubeadm","startTime":%q}]}}`
	patch := func(status string) error {
		return env.Client.Status().Patch(t.Context(), host.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"status":`+status+`}`)))
	}
	for name, status := range map[string]string{
		"a time with a small t":           `{"cleanProof":{"claimGeneration":0,"time":"2026-01-01t00:00:00Z"}}`,
		"a time with a small z":           `{"cleanProof":{"claimGeneration":0,"time":"2026-01-01T00:00:00z"}}`,
		"a quantity with a half exponent": `{"capacity":{"cpu":"1e1.5"}}`,
		"a quantity of 2 GiB of digits":   `{"capacity":{"cpu":"1e2147483647"}}`,
		"the size of a disk":              `{"inventory":{"hardware":{"disks":[{"name":"sda","size":"1e1.5"}]}}}`,
		"the time of a condition":         `{"conditions":[{"type":"Odd","status":"True","reason":"Odd","message":"","lastTransitionTime":"2026-01-01t00:00:00z"}]}`,
		"a step without microseconds":     fmt.Sprintf(step, "2026-01-01T00:00:00Z"),
	} {
		if err := patch(status); !apierrors.IsInvalid(err) {
			t.Errorf("%s: the API server answers %v, want that it is invalid", name, err)
		}
	}
	if err := env.Client.List(t.Context(), &infrav1.HostList{}, client.InNamespace(namespace)); err != nil {
		t.Errorf("a List of all Hosts fails: %v", err)
	}
	for name, status := range map[string]string{
		"a time with an offset":  `{"cleanProof":{"claimGeneration":0,"time":"2026-01-01T00:00:00.5+02:00"}}`,
		"quantities":             `{"capacity":{"cpu":"129e6","memory":"7.5625Gi","ephemeral-storage":"100m"}}`,
		"a step of microseconds": fmt.Sprintf(step, "2026-01-01T00:00:00.000000Z"),
		"a number, not a string": `{"capacity":{"cpu":64}}`,
	} {
		if err := patch(status); err != nil {
			t.Errorf("%s: the API server answers %v", name, err)
		}
	}
}
