// Package outside uses what this repository publishes as somebody else does: from a
// folder outside of it, by the go command alone, from a module proxy that serves the
// tree as if it had been tagged. Nothing may import it.
package outside
