package remote

import (
	"strings"
	"testing"
)

func TestNormalize(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.1":              "ann@192.0.2.1:22",
		"root@192.0.2.1:2222":    "root@192.0.2.1:2222",
		"rack1-a.example.com":    "ann@rack1-a.example.com:22",
		"2001:db8::1":            "ann@[2001:db8::1]:22",
		"[2001:db8::1]":          "ann@[2001:db8::1]:22",
		"root@[2001:db8::1]:222": "root@[2001:db8::1]:222",
	} {
		if got, err := Normalize(text, "ann"); err != nil || got != want {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "@a", "a:0", "a:70000", "a:b", "a b", "$(id)", "-oProxyCommand=x", "a;b@c", "root@", "a:"} {
		if got, err := Normalize(text, "ann"); err == nil || !strings.Contains(err.Error(), "want [user@]address[:port]") {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
}
