// Package apiserver starts the API servers of tests.
//
// Only tests may import it.
package apiserver
