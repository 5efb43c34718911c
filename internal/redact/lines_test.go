package redact

import (
	"slices"
	"strings"
	"testing"
)

// A private key that goes over several lines is replaced whole, although journald writes something before
// each of them, and the last one is too short for a key.
func TestLines(t *testing.T) {
	for name, tc := range map[string]struct{ lines, want []string }{
		"key": {
			[]string{"a", "10:00 host app[1]: -----BEGIN RSA PRIVATE KEY-----", "10:00 host app[1]: MHcCAQEE", "10:00 host app[1]: Zm9v==", "10:00 host app[1]: -----END RSA PRIVATE KEY----- b", "c"},
			[]string{"a", "10:00 host app[1]: REDACTED", "REDACTED", "REDACTED", "REDACTED b", "c"},
		},
		"whole key on a line": {
			[]string{`-----BEGIN PRIVATE KEY-----\nMHcCAQEE\n-----END PRIVATE KEY----- x`, "y"},
			[]string{"REDACTED x", "y"},
		},
		"second key on the line where the first ends": {
			[]string{"-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY----- -----BEGIN PRIVATE KEY-----", "MHcCAQEE", "-----END PRIVATE KEY-----", "y"},
			[]string{"REDACTED", "REDACTED REDACTED", "REDACTED", "REDACTED", "y"},
		},
		"credential of one line": {[]string{"password=" + secretWord}, []string{"password=REDACTED"}},
		"certificate":            {[]string{"-----BEGIN CERTIFICATE-----", "short"}, []string{"-----BEGIN CERTIFICATE-----", "short"}},
	} {
		l := &Lines{}
		var got []string
		for _, line := range tc.lines {
			got = append(got, l.Line(line))
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s:\n%q\nwant\n%q", name, got, tc.want)
		}
	}
}

// Text that only resembles the begin of a key does not hide a log for ever.
func TestKeyWithoutEnd(t *testing.T) {
	l := &Lines{}
	l.Line("-----BEGIN PRIVATE KEY-----")
	hidden := 0
	for ; hidden < 10*longestKey && strings.Contains(l.Line("kubelet starts"), Mark); hidden++ {
	}
	if hidden != longestKey {
		t.Errorf("%d lines are hidden, want %d", hidden, longestKey)
	}
}
