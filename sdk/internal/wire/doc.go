// Package wire reads and writes the bodies of hook calls: JSON that is decoded
// once and strictly, in memory that is bounded over all bodies in flight.
//
// Tokens, quoting and what is unusual are package json's; plan.go says what is not.
//
// It may import apimachinery and package hook's types only.
package wire
