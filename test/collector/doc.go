// Package collector takes spans by OTLP in a test, as collectors that people run do, and
// shows them as trees.
//
// It imports nothing of this repository. Only tests may import it.
package collector
