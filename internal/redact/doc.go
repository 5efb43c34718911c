// Package redact takes secrets out of what is handed to others: text such as logs, and
// objects of Kubernetes.
//
// Three nets lie one below the other. Of an object, fields that can carry credentials are
// replaced by what they are called, whatever is in them (Object). Of all text, what looks
// like a credential is replaced (Text). And values that were seen in Secrets (Learn) are
// replaced wherever they turn up. Of text that comes line by line, Lines also takes out keys that go
// over several lines.
//
// It imports nothing of this repository. It is imported by internal/support,
// internal/cli and internal/agent/hostlog.
package redact
