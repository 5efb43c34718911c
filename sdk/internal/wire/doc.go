// Package wire reads and writes the bodies of hook calls: JSON that is decoded
// once and strictly, in memory that is bounded over all bodies in flight.
//
// JSON is github.com/go-json-experiment/json's, the mirror of encoding/json/v2. What
// is here is which options a protocol needs, and what a body becomes in memory.
package wire
