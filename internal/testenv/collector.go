package testenv

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
)

// Collector has what was sent to it.
type Collector struct {
	collectorv1.UnimplementedTraceServiceServer

	mu    sync.Mutex
	spans []Span
}

// Span is one of a service.
type Span struct {
	*tracev1.Span
	Service string
}

// StartCollector starts a receiver of spans by OTLP, as collectors that people run are, and sets the
// environment of the test so that traces go to it.
func StartCollector(t *testing.T) *Collector {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c, server := &Collector{}, grpc.NewServer()
	collectorv1.RegisterTraceServiceServer(server, c)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+listener.Addr().String())
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
	return c
}

// Export implements collectorv1.TraceServiceServer.
func (c *Collector) Export(_ context.Context, r *collectorv1.ExportTraceServiceRequest) (*collectorv1.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range r.GetResourceSpans() {
		service := textOf(of.GetResource().GetAttributes(), "service.name")
		for _, scope := range of.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				c.spans = append(c.spans, Span{span, service})
			}
		}
	}
	return &collectorv1.ExportTraceServiceResponse{}, nil
}

// Spans are all that came, in the order in which they came.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// Named are the spans of a name.
func (c *Collector) Named(name string) []Span {
	return slices.DeleteFunc(c.Spans(), func(s Span) bool { return s.GetName() != name })
}

// Tree writes the trace whose root has that name: each span below its parent, by begin. The
// error is that there is none, or that spans of it are below none.
func (c *Collector) Tree(root string) (string, error) { return c.tree(root, false) }

// TreeOnce does so with what is done again, as a hook whose claim met a conflict, written once.
func (c *Collector) TreeOnce(root string) (string, error) { return c.tree(root, true) }

func (c *Collector) tree(root string, once bool) (string, error) {
	all := c.Spans()
	i := slices.IndexFunc(all, func(s Span) bool { return s.GetName() == root && len(s.GetParentSpanId()) == 0 })
	if i < 0 {
		return "", fmt.Errorf("no root %q among %d spans", root, len(all))
	}
	children, known, total := map[string][]Span{}, map[string]bool{}, 0
	for _, s := range all {
		if string(s.GetTraceId()) == string(all[i].GetTraceId()) && (!once || !known[string(s.GetSpanId())]) {
			known[string(s.GetSpanId())] = true
			children[string(s.GetParentSpanId())] = append(children[string(s.GetParentSpanId())], s)
			total++
		}
	}
	var out strings.Builder
	w := spanWriter{out: &out, children: children, once: once}
	if seen := w.write("", "", false); seen != total {
		return "", fmt.Errorf("of %d spans of the trace %d are below its root:\n%s", total, seen, &out)
	}
	return out.String(), nil
}

// spanWriter writes spans below each other; once leaves out those whose name a sibling had, with
// what is below them.
type spanWriter struct {
	out      *strings.Builder
	children map[string][]Span
	once     bool
}

// write says how many spans there are below a parent, again that none of them is shown.
func (w spanWriter) write(parent, indent string, again bool) (seen int) {
	written := map[string]bool{}
	slices.SortStableFunc(w.children[parent], func(a, b Span) int {
		return cmp.Compare(a.GetStartTimeUnixNano()/1e6, b.GetStartTimeUnixNano()/1e6)
	})
	for _, s := range w.children[parent] {
		again := again || w.once && written[s.GetName()]
		if !again {
			fmt.Fprintf(w.out, "%s%s (%s)\n", indent, s.GetName(), s.Service)
		}
		written[s.GetName()] = true
		seen += 1 + w.write(string(s.GetSpanId()), indent+"  ", again)
	}
	return seen
}

// Attributes of the span that are texts, numbers or lists, as texts.
func (s Span) Attributes() map[string]string {
	all := map[string]string{}
	for _, a := range s.GetAttributes() {
		all[a.GetKey()] = valueOf(a.GetValue())
	}
	return all
}

func valueOf(v *commonv1.AnyValue) string {
	switch v.GetValue().(type) {
	case *commonv1.AnyValue_IntValue:
		return fmt.Sprint(v.GetIntValue())
	case *commonv1.AnyValue_ArrayValue:
		var all []string
		for _, item := range v.GetArrayValue().GetValues() {
			all = append(all, valueOf(item))
		}
		return strings.Join(all, ",")
	}
	return v.GetStringValue()
}

func textOf(attributes []*commonv1.KeyValue, key string) string {
	for _, a := range attributes {
		if a.GetKey() == key {
			return a.GetValue().GetStringValue()
		}
	}
	return ""
}
