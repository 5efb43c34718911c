package otlp

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/slipway-dev/slipway/internal/tracing"
)

// Variables that turn traces on, and off again; see OpenTelemetry's specification. The
// exporter and the SDK read the others: headers, certificates, sampler, resource.
const (
	endpointEnv       = "OTEL_EXPORTER_OTLP_ENDPOINT"
	tracesEndpointEnv = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	protocolEnv       = "OTEL_EXPORTER_OTLP_PROTOCOL"
	tracesProtocolEnv = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
	exporterEnv       = "OTEL_TRACES_EXPORTER"
	disabledEnv       = "OTEL_SDK_DISABLED"
)

// FromEnvironment returns a provider that sends spans to the endpoint that the environment
// names, or nil when it names none. The caller shuts it down, which sends what is left.
// It does not wait for the endpoint.
func FromEnvironment(ctx context.Context, service, version string) (*sdktrace.TracerProvider, error) {
	on, err := wanted(os.Getenv)
	if err != nil || !on {
		return nil, err
	}
	exporter, err := otlptracegrpc.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("set up the export of traces: %w", err)
	}
	about, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", service), attribute.String("service.version", version)),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("read OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	return tracing.NewProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about)), nil
}

// flushPatience is how long the end of a program waits for a collector to take what is left.
const flushPatience = 5 * time.Second

// Flush shuts a provider down, also when the context has ended. The error is that the last
// spans did not reach the endpoint.
func Flush(ctx context.Context, provider *sdktrace.TracerProvider) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushPatience)
	defer cancel()
	return provider.Shutdown(ctx)
}

// wanted says whether the environment asks for traces. What the exporter would misread
// without a word is an error.
func wanted(getenv func(string) string) (bool, error) {
	if strings.EqualFold(getenv(disabledEnv), "true") {
		return false, nil
	}
	switch exporter := getenv(exporterEnv); exporter {
	case "none":
		return false, nil
	case "", "otlp":
	default:
		return false, fmt.Errorf("%s is %q; use otlp or none", exporterEnv, exporter)
	}
	name, endpoint := tracesEndpointEnv, getenv(tracesEndpointEnv)
	if endpoint == "" {
		name, endpoint = endpointEnv, getenv(endpointEnv)
	}
	if endpoint == "" {
		return false, nil
	}
	if u, err := url.Parse(endpoint); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return false, fmt.Errorf("%s is %q; use an address like https://collector.example:4317, or http://... without TLS", name, endpoint)
	}
	for _, name := range []string{tracesProtocolEnv, protocolEnv} {
		switch protocol := getenv(name); protocol {
		case "grpc":
			return true, nil
		case "":
		default:
			return false, fmt.Errorf("%s is %q; traces are sent by grpc only: use that, and the port of the collector for it, 4317", name, protocol)
		}
	}
	return true, nil
}
