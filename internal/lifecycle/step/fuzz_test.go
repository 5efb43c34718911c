package step

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// FuzzParseManifest holds that no manifest ends the process, and that what is accepted has
// all that applying needs.
func FuzzParseManifest(f *testing.F) {
	for _, seed := range []string{
		"", "---\n---", "a: &a [*a]", "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}",
		"apiVersion: v1\nkind: List\nitems: [{kind: A, apiVersion: b/v1, metadata: {name: c}}]", "metadata: 1", "items: {}\nkind: List",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		objects, err := parseManifest(manifestSource{kind: "ConfigMap", name: "m", key: "k"}, data)
		if err != nil {
			return
		}
		for _, o := range objects {
			if o.GetName() == "" || o.GetKind() == "" || o.GetAPIVersion() == "" || o.source.document < 1 {
				t.Errorf("accepted %v", o)
			}
			o.DeepCopy()
		}
	})
}

// FuzzAnswer holds that whatever an endpoint answers, only 2xx ends the step, it is
// asked again within the bounds, and what it says fits in one line of a condition.
func FuzzAnswer(f *testing.F) {
	f.Add(200, "", "application/json", `{"message":"done"}`)
	f.Add(202, "-1", "application/json; charset=utf-8", `{"message":"a\nb\u0000"}`)
	f.Add(503, "Wed, 21 Oct 2065 07:28:00 GMT", "text/html", "<html>")
	f.Add(429, "9223372036854775807", ";", "")
	f.Add(302, "soon", "application/json", `{"message":1}`)
	now := time.Unix(1767225600, 0)
	f.Fuzz(func(t *testing.T, code int, after, contentType, content string) {
		if code < 100 || code > 999 {
			return
		}
		result, err := webhookAnswer(&http.Response{
			StatusCode: code, Status: "status",
			Header: http.Header{"Retry-After": {after}, "Content-Type": {contentType}},
			Body:   io.NopCloser(strings.NewReader(content)),
		}, now, "https://a")
		if result.Done != (err == nil && code >= 200 && code < 300 && code != http.StatusAccepted) {
			t.Errorf("%d: %+v, %v", code, result, err)
		}
		if err == nil && !result.Done && (result.After < minWebhookPause || result.After > maxWebhookPause) {
			t.Errorf("%d with Retry-After %q: asks again after %s", code, after, result.After)
		}
		if m := result.Message; len(m) > maxAnswerMessage+len("https://a answered status: ") || !utf8.ValidString(m) || strings.ContainsAny(m, "\n\r\x00\x1b") {
			t.Errorf("says %q", m)
		}
	})
}

// FuzzParseSigningKey holds that no key is accepted that Standard Webhooks forbids, and that
// no error tells one.
func FuzzParseSigningKey(f *testing.F) {
	for _, seed := range []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n", "whsec_", "=", "whsec_whsec_"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		key, err := parseSigningKey(text)
		if err == nil && (len(key) < shortestSigningKey || len(key) > longestSigningKey) {
			t.Errorf("accepted a key of %d bytes", len(key))
		}
		if err != nil && err.Error() != errSigningKey.Error() {
			t.Errorf("tells %q", err)
		}
	})
}
