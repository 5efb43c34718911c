package host_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/controller/host"
)

// cached reads a fleet from memory, as the manager does.
type cached struct {
	client.Reader
	hosts  infrav1.HostList
	leases coordinationv1.LeaseList
}

func (c *cached) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	switch l := list.(type) {
	case *infrav1.HostList:
		*l = c.hosts
	case *coordinationv1.LeaseList:
		*l = c.leases
	default:
		return fmt.Errorf("unexpected %T", list)
	}
	return nil
}

// busiest is a fleet of n hosts that have all series that a host may have.
func busiest(n int) *cached {
	c := &cached{}
	now := metav1.NewTime(time.Unix(1_800_000_000, 0))
	for i := range n {
		meta := metav1.ObjectMeta{Namespace: fmt.Sprintf("tenant-%d", i%10), Name: fmt.Sprintf("rack%03d-unit%02d", i/40, i%40)}
		h := infrav1.Host{ObjectMeta: meta}
		h.Status.Phase = infrav1.HostPhaseBootstrapping
		h.Status.ObservedOperation = &infrav1.ObservedOperation{ID: "op", Phase: infrav1.HostDesiredBootstrapped, State: infrav1.OperationRunning, StartTime: now}
		h.Status.VirtualIP = &infrav1.VirtualIPStatus{Address: "10.88.0.200", State: infrav1.VirtualIPHeld}
		c.hosts.Items = append(c.hosts.Items, h)
		lease := coordinationv1.Lease{ObjectMeta: meta}
		lease.Annotations = map[string]string{infrav1.CertificateExpirationAnnotation: now.UTC().Format(time.RFC3339)}
		lease.Spec.RenewTime = &metav1.MicroTime{Time: now.Time}
		c.leases.Items = append(c.leases.Items, lease)
	}
	return c
}

// 5,000 hosts that are all at work have the series that docs/observability.md says, in a
// scrape of a few megabytes.
func TestSeriesOfALargeFleet(t *testing.T) {
	const hosts, ofEach, ofGroups = 5000, 5, 10
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(host.Collectors(busiest(hosts))[0])
	begin := time.Now()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	series := 0
	for _, family := range families {
		series += len(family.GetMetric())
		if _, err := expfmt.MetricFamilyToText(&text, family); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d series, %d KiB, %s", series, text.Len()>>10, time.Since(begin).Round(time.Millisecond))
	if series != hosts*ofEach+ofGroups {
		t.Errorf("%d hosts have %d series, want %d for each and %d for all", hosts, series, ofEach, ofGroups)
	}
	if text.Len() > 4<<20 {
		t.Errorf("a scrape is %d KiB", text.Len()>>10)
	}
}
