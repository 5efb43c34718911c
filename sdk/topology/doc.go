// Package topology writes the handlers of GeneratePatches and ValidateTopology with typed templates.
//
// A Visitor selects templates as an inline patch of a ClusterClass does, and gets each as a Go type, with
// its holder and its variables. GeneratePatches answers with what the visitors changed, and with nothing
// else: fields that the Go type does not have, and zero values that it would write, stay as they are.
//
// It imports nothing of the SDK, and is imported by extensions.
package topology
