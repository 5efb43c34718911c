package host

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// The figures of a fleet are read from its objects at each scrape.
func TestFleetMetrics(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{infrav1.AddToScheme, coordinationv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	host := func(name string, status infrav1.HostStatus) *infrav1.Host {
		return &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name}, Status: status}
	}
	connected := []metav1.Condition{{Type: infrav1.AgentConnectedCondition, Status: metav1.ConditionTrue}}
	away := []metav1.Condition{{Type: infrav1.AgentConnectedCondition, Status: metav1.ConditionFalse}}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "busy"}}
	lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Unix(1000, 5e8)}
	lease.Annotations = map[string]string{infrav1.CertificateExpirationAnnotation: "1970-01-02T00:00:00Z"}
	garbled := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "holder", Annotations: map[string]string{infrav1.CertificateExpirationAnnotation: "soon", infrav1.ReportRefusedAnnotation: "addresses: too many"}}}
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		host("busy", infrav1.HostStatus{Phase: infrav1.HostPhaseBootstrapping, Conditions: connected, ObservedOperation: &infrav1.ObservedOperation{
			Phase: infrav1.HostDesiredBootstrapped, State: infrav1.OperationRunning, StartTime: metav1.Unix(500, 0),
		}}),
		host("holder", infrav1.HostStatus{Phase: infrav1.HostPhaseRunning, Conditions: connected, ObservedOperation: &infrav1.ObservedOperation{
			Phase: infrav1.HostDesiredBootstrapped, State: infrav1.OperationSucceeded, StartTime: metav1.Unix(500, 0),
		}, VirtualIP: &infrav1.VirtualIPStatus{Address: "10.0.0.9", State: infrav1.VirtualIPHeld}, RebootRequired: &infrav1.HostRebootRequired{}}),
		host("away", infrav1.HostStatus{Phase: infrav1.HostPhaseRunning, Conditions: away, VirtualIP: &infrav1.VirtualIPStatus{Address: "10.0.0.9", State: infrav1.VirtualIPStandby}}),
		lease, garbled,
	).Build()
	const want = `
# HELP slipway_host_certificate_expiration_timestamp_seconds When the certificate that the agent of a host works with ends. It is replaced when a third of its day is left.
# TYPE slipway_host_certificate_expiration_timestamp_seconds gauge
slipway_host_certificate_expiration_timestamp_seconds{host="busy",namespace="n"} 86400
# HELP slipway_host_connected 1 while the agent of a host is connected, 0 while it is away.
# TYPE slipway_host_connected gauge
slipway_host_connected{host="away",namespace="n"} 0
slipway_host_connected{host="busy",namespace="n"} 1
slipway_host_connected{host="holder",namespace="n"} 1
# HELP slipway_host_last_heartbeat_timestamp_seconds Time of the last heartbeat, by the clock of the host.
# TYPE slipway_host_last_heartbeat_timestamp_seconds gauge
slipway_host_last_heartbeat_timestamp_seconds{host="busy",namespace="n"} 1000.5
# HELP slipway_host_operation_start_timestamp_seconds When the operation under way on a host began; there is none while nothing runs.
# TYPE slipway_host_operation_start_timestamp_seconds gauge
slipway_host_operation_start_timestamp_seconds{host="busy",namespace="n",phase="Bootstrapped"} 500
# HELP slipway_host_reboot_required 1 while the operating system of a host asks for a reboot; there is none while it does not.
# TYPE slipway_host_reboot_required gauge
slipway_host_reboot_required{host="holder",namespace="n"} 1
# HELP slipway_host_report_refused 1 while the API server refuses a part of the report of a host's agent; there is none while it accepts all of it.
# TYPE slipway_host_report_refused gauge
slipway_host_report_refused{host="holder",namespace="n"} 1
# HELP slipway_host_virtual_ip_held 1 while a host holds the control-plane address, 0 while it may take it.
# TYPE slipway_host_virtual_ip_held gauge
slipway_host_virtual_ip_held{address="10.0.0.9",host="away",namespace="n"} 0
slipway_host_virtual_ip_held{address="10.0.0.9",host="holder",namespace="n"} 1
# HELP slipway_hosts Hosts by namespace, phase and whether the agent is connected.
# TYPE slipway_hosts gauge
slipway_hosts{connected="false",namespace="n",phase="Running"} 1
slipway_hosts{connected="true",namespace="n",phase="Bootstrapping"} 1
slipway_hosts{connected="true",namespace="n",phase="Running"} 1
`
	if err := testutil.CollectAndCompare(fleetCollector{reader}, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	problems, err := testutil.CollectAndLint(fleetCollector{reader})
	if err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
}

// An operation counts when its end is seen, once, and not when it ended before.
func TestOperationsAreCountedOnce(t *testing.T) {
	report := func(id string, state infrav1.OperationState) *infrav1.ObservedOperation {
		op := &infrav1.ObservedOperation{ID: id, Phase: infrav1.HostDesiredReset, State: state, Step: "wipe", StartTime: metav1.Unix(100, 0)}
		if state != infrav1.OperationRunning {
			op.CompletionTime = metav1.Unix(107, 0)
		}
		return op
	}
	failures := operationFailures.WithLabelValues(string(infrav1.HostDesiredReset), "wipe")
	ended := func() float64 { return testutil.ToFloat64(failures) }
	for _, c := range []struct {
		name    string
		reports []*infrav1.ObservedOperation
		want    float64
	}{
		{"ended before this process", []*infrav1.ObservedOperation{report("1", infrav1.OperationFailed), report("1", infrav1.OperationFailed)}, 0},
		{"seen to end", []*infrav1.ObservedOperation{report("1", infrav1.OperationRunning), report("1", infrav1.OperationFailed), report("1", infrav1.OperationFailed)}, 1},
		{"too fast to be seen running", []*infrav1.ObservedOperation{nil, report("1", infrav1.OperationFailed)}, 1},
		{"the next one", []*infrav1.ObservedOperation{report("1", infrav1.OperationSucceeded), report("2", infrav1.OperationFailed)}, 1},
		{"tried again", []*infrav1.ObservedOperation{
			report("1", infrav1.OperationRunning), report("1", infrav1.OperationFailed), report("1", infrav1.OperationRunning), report("1", infrav1.OperationFailed),
		}, 2},
		{"succeeds", []*infrav1.ObservedOperation{report("1", infrav1.OperationRunning), report("1", infrav1.OperationSucceeded)}, 0},
	} {
		o, before := &operations{}, ended()
		for _, r := range c.reports {
			if o.ended(types.NamespacedName{Name: "h"}, r) {
				count(r, nil)
			}
		}
		if got := ended() - before; got != c.want {
			t.Errorf("%s: %v failures, want %v", c.name, got, c.want)
		}
	}
	if n := testutil.CollectAndCount(operationSeconds); n < 2 {
		t.Errorf("durations of %d kinds, want those of failed and of succeeded resets", n)
	}
}
