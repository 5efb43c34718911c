// Package monitoring runs Debian's Prometheus for tests: rules are tested by promtool, and
// a server scrapes a running plane. What is scraped and what must fire is up to the tests
// that use it.
//
// Only tests may import it. It imports no production code.
package monitoring
