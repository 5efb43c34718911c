// Package atomicfile replaces files so that a power cut leaves either the old
// or the new content, never a mixture. Anything may import it; it
// imports the standard library only.
package atomicfile
