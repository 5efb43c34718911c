// Package logs judges lines that programs of this repository wrote with --logging-format
// json, by what docs/observability.md promises of them: one object a line, with a time and a
// message, and one key for each thing. Lines of libraries are judged, too: who reads a log
// cannot tell them apart.
//
// It imports nothing of this repository. Only tests may import it: suites that run the
// programs hand it their logs, and test/docs holds the sources to the same keys.
package logs
