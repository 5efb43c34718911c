package wire

import (
	"strings"
	"testing"
)

func TestReadLoosely(t *testing.T) {
	refuses := func(status string) Loose { return Loose{Refuses: true, Status: status, HasStatus: status != ""} }
	waits := func(seconds int32) Loose { return Loose{RetryAfterSeconds: seconds, HasStatus: true} }
	nothing := Loose{HasStatus: true}
	for body, want := range map[string]Loose{
		`{"status":"Success","status":"Failure"}`:                        refuses("Failure"),
		`{"status":"Failure","status":"Success"}`:                        refuses("Failure"),
		`{"status":"Success","STATUS":"failed"}`:                         refuses("failed"),
		"{\"x\":[{\"status\":\"Success\"}],\"\\u0073tatus\":\"Failure\"": refuses("Failure"),
		`{"status":"Success"}{"status":"Failure"}`:                       refuses("Failure"),
		`{"x":NaN,"status":"Failure"}`:                                   refuses("Failure"),
		"\xef\xbb\xbf{\"status\":\"Failure\"}":                           refuses("Failure"),
		"{\"x\":\"\x01\",\"status\":\"Failure\"}":                        refuses("Failure"),
		`{"x":1,"x":2}`: {Refuses: true},
		`null`:          {Refuses: true},
		`{"status":5}`:  {Refuses: true, HasStatus: true},
		`{"status":{}}`: {Refuses: true, HasStatus: true},
		// What is within another value, or cut off, is not said.
		`{"status":"Success","x":{"status":"Failure","retryAfterSeconds":3}}`: nothing,
		`{"status":"Success","x":"\"status\":\"Failure\""}`:                   nothing,
		`{"status":"Succ`:        {},
		`{"status"`:              {},
		`[{"status":"Failure"}]`: {},
		`<html>`:                 {},
		``:                       {},
		// The shortest wait counts, as of several handlers.
		`{"status":"Success","retryAfterSeconds":30,"retryafterseconds":20}`: waits(20),
		`{"status":"Success","retryAfterSeconds":0,"retryAfterSeconds":30}`:  waits(30),
		`{"status":"Success","retryAfterSeconds":"30"}`:                      waits(30),
		`{"status":"Success","retryAfterSeconds":1e1}`:                       waits(10),
		`{"status":"Success","retryAfterSeconds":-0.5}`:                      waits(1),
		`{"status":"Success","retryAfterSeconds":1e400}`:                     waits(1<<31 - 1),
		`{"status":"Success","retryAfterSeconds":NaN}`:                       nothing,
		`{"status":"Success","retryAfterSeconds":null}`:                      nothing,
		`{"status":"Success","retryAfterSeconds":"soon"}`:                    nothing,
		`{"status":"Success","retryAfterSeconds":3`:                          nothing,
		"{\"message\":\"a\xff\",\"status\":\"Success\",\"message\":\"b\"}":   {Message: "a\uFFFD", HasStatus: true},
	} {
		if got := ReadLoosely([]byte(body)); got != want {
			t.Errorf("%q is read as %+v, want %+v", body, got, want)
		}
	}
}

// FuzzReadLoosely: it ends, whatever it reads, and says nothing of what Decode takes for a clean
// success with other words.
func FuzzReadLoosely(f *testing.F) {
	for _, seed := range []string{`{"status":"Success","x":[1,{"a":"b"}]}`, `{"status":"Success"}{`, "\x01\x02{\"\\", `{{{"status":`, `]]]}`, `{"a" 1}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		before := string(data)
		loose := ReadLoosely(data)
		if string(data) != before {
			t.Fatal("the body was changed")
		}
		if loose.RetryAfterSeconds < 0 || strings.ToValidUTF8(loose.Message, "") != loose.Message {
			t.Fatalf("it reads %+v", loose)
		}
	})
}
