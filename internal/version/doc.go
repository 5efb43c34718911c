// Package version tells the version a binary was built as. Anything may import it.
package version
