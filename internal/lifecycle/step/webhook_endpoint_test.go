package step

import (
	"strings"
	"testing"
)

func TestParseEndpoint(t *testing.T) {
	for text, want := range map[string]string{
		"https://example.com/a?b=c":     "",
		"https://[::1]:8443":            "",
		"http://example.com":            "must begin with https://",
		"https://u:hunter2@example.com": "must not have a user",
		"https://example.com/#x":        "must not have a fragment",
		"https://example.com/#":         "must not have a fragment",
		"https:///path":                 "must have a host",
		"https://example.com:99999/":    "must have a port",
		"https://example.com:0/":        "must have a port",
		"https://exa mple.com":          "is no URL",
	} {
		u, err := parseEndpoint(text)
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", text, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: got %v, %v; want %q", text, u, err, want)
		}
	}
}

// FuzzParseEndpoint holds that an accepted URL is what a step may call.
func FuzzParseEndpoint(f *testing.F) {
	for _, seed := range []string{"https://a", "https://a:1/b?c#d", "//a", "https://[::1%25lo]:1", "https://a@b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := parseEndpoint(text)
		if err != nil {
			return
		}
		if u.Scheme != "https" || u.Hostname() == "" || u.User != nil || strings.ContainsAny(strings.TrimPrefix(endpointHost(u), "https://"), "/?") {
			t.Errorf("accepted %q", text)
		}
	})
}
