// Package otlp sends spans to a collector by OTLP over gRPC, as the environment of the
// process says in the variables that OpenTelemetry specifies. Without an endpoint there is
// nothing: no connection, no goroutine.
//
// It imports nothing of this repository but internal/tracing. Managers import it.
package otlp
