package host

import (
	"context"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
)

// Metrics of single hosts are gauges of what alerts ask, at most five series for a host:
// 25,000 for 5,000 hosts. What may be added up is counted without the host's name.
var (
	hostsDesc = prometheus.NewDesc("slipway_hosts",
		"Hosts by namespace, phase and whether the agent is connected.", []string{"namespace", "phase", "connected"}, nil)
	connectedDesc = prometheus.NewDesc("slipway_host_connected",
		"1 while the agent of a host is connected, 0 while it is away.", hostLabels, nil)
	heartbeatDesc = prometheus.NewDesc("slipway_host_last_heartbeat_timestamp_seconds",
		"Time of the last heartbeat, by the clock of the host.", hostLabels, nil)
	certificateDesc = prometheus.NewDesc("slipway_host_certificate_expiration_timestamp_seconds",
		"When the certificate that the agent of a host works with ends. It is replaced when a third of its day is left.", hostLabels, nil)
	operationStartDesc = prometheus.NewDesc("slipway_host_operation_start_timestamp_seconds",
		"When the operation under way on a host began; there is none while nothing runs.", append(hostLabels[:2:2], "phase"), nil)
	virtualIPDesc = prometheus.NewDesc("slipway_host_virtual_ip_held",
		"1 while a host holds the control-plane address, 0 while it may take it.", append(hostLabels[:2:2], "address"), nil)
	reportRefusedDesc = prometheus.NewDesc("slipway_host_report_refused",
		"1 while the API server refuses a part of the report of a host's agent; there is none while it accepts all of it.", hostLabels, nil)
	rebootRequiredDesc = prometheus.NewDesc("slipway_host_reboot_required",
		"1 while the operating system of a host asks for a reboot; there is none while it does not.", hostLabels, nil)
	hostLabels = []string{"namespace", "host"}
)

var (
	operationSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "slipway_host_operation_duration_seconds",
		Help: "Time from the begin of an operation on a host to its end, as the agent reports it, by phase and state: Succeeded or Failed.",
		// from a reset of an idle host to a node that pulls its images
		Buckets: []float64{1, 2.5, 5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 300, 600, 1200},
	}, []string{"phase", "state"})
	operationFailures = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "slipway_host_operation_failures_total", Help: "Operations on hosts that failed for good, by phase and the step that failed.",
	}, []string{"phase", "step"})
)

// Collectors are the metrics of this controller, to be registered once. The reader should
// be cached: every scrape lists all hosts and their heartbeats, so that the figures cannot
// drift from the objects.
func Collectors(reader client.Reader) []prometheus.Collector {
	return []prometheus.Collector{fleetCollector{reader}, operationSeconds, operationFailures}
}

type fleetCollector struct{ reader client.Reader }

// Describe implements prometheus.Collector.
func (c fleetCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{hostsDesc, connectedDesc, heartbeatDesc, certificateDesc, operationStartDesc, virtualIPDesc, reportRefusedDesc, rebootRequiredDesc} {
		ch <- desc
	}
}

// Collect implements prometheus.Collector.
func (c fleetCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	hosts, leases := &infrav1.HostList{}, &coordinationv1.LeaseList{}
	if err := c.reader.List(ctx, hosts, client.UnsafeDisableDeepCopy); err != nil {
		ch <- prometheus.NewInvalidMetric(hostsDesc, err)
		return
	}
	if err := c.reader.List(ctx, leases, client.UnsafeDisableDeepCopy); err != nil {
		ch <- prometheus.NewInvalidMetric(heartbeatDesc, err)
		return
	}
	heartbeats := map[types.NamespacedName]*coordinationv1.Lease{}
	for i := range leases.Items {
		heartbeats[client.ObjectKeyFromObject(&leases.Items[i])] = &leases.Items[i]
	}
	type group struct {
		namespace, phase string
		connected        bool
	}
	counts := map[group]int{}
	for i := range hosts.Items {
		h := &hosts.Items[i]
		counts[group{h.Namespace, string(h.Status.Phase), host.Connected(h)}]++
		collectHost(ch, h, heartbeats[client.ObjectKeyFromObject(h)])
	}
	for g, n := range counts {
		ch <- prometheus.MustNewConstMetric(hostsDesc, prometheus.GaugeValue, float64(n), g.namespace, g.phase, strconv.FormatBool(g.connected))
	}
}

// collectHost tells of a host, and of its heartbeat if there is one.
func collectHost(ch chan<- prometheus.Metric, h *infrav1.Host, heartbeat *coordinationv1.Lease) {
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, append([]string{h.Namespace, h.Name}, labels...)...)
	}
	gauge(connectedDesc, oneIf(host.Connected(h)))
	if heartbeat != nil {
		if renewed := heartbeat.Spec.RenewTime; renewed != nil {
			gauge(heartbeatDesc, float64(renewed.UnixMilli())/1000)
		}
		if ends, err := time.Parse(time.RFC3339, heartbeat.Annotations[infrav1.CertificateExpirationAnnotation]); err == nil {
			gauge(certificateDesc, float64(ends.Unix()))
		}
		if heartbeat.Annotations[infrav1.ReportRefusedAnnotation] != "" {
			gauge(reportRefusedDesc, 1)
		}
	}
	if op := h.Status.ObservedOperation; op != nil && op.State == infrav1.OperationRunning && !op.StartTime.IsZero() {
		gauge(operationStartDesc, float64(op.StartTime.Unix()), string(op.Phase))
	}
	if h.Status.RebootRequired != nil {
		gauge(rebootRequiredDesc, 1)
	}
	if ip := h.Status.VirtualIP; ip != nil && ip.Address != "" {
		gauge(virtualIPDesc, oneIf(ip.State == infrav1.VirtualIPHeld), ip.Address)
	}
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
