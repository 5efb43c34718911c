// Package atomicfile replaces files so that a power cut leaves either the old
// or the new content, never a mixture. Any package of the agent may import it.
package atomicfile
