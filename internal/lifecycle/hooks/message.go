package hooks

import "strings"

const (
	// maxMessage bounds the message of one policy, in bytes.
	maxMessage = 2048
	// maxMessages bounds the messages of all policies together. Cluster API writes them to a
	// condition of the Cluster, which may have 32 KiB, beside those of other extensions.
	maxMessages = 16 << 10
)

// failures are the errors of all policies that fail.
type failures []error

// Error implements error.
func (f failures) Error() string {
	messages := make([]string, len(f))
	for i, err := range f {
		messages[i] = err.Error()
	}
	return join(messages, "\n")
}

// Unwrap returns the errors.
func (f failures) Unwrap() []error { return f }

// join joins the messages of policies and shortens each to its share of the whole.
func join(messages []string, separator string) string {
	share := maxMessage
	if n := len(messages); n > 0 {
		share = min(share, max(0, maxMessages/n-len(separator)))
	}
	short := make([]string, len(messages))
	for i, message := range messages {
		short[i] = shorten(message, share)
	}
	return shorten(strings.Join(short, separator), maxMessages)
}

const ellipsis = "…"

// shorten cuts a message to a number of bytes.
func shorten(message string, most int) string {
	if len(message) <= most {
		return message
	}
	return strings.ToValidUTF8(message[:max(0, most-len(ellipsis))], "") + ellipsis
}
