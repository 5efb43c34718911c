package startup

import "testing"

func TestLastError(t *testing.T) {
	for name, c := range map[string]struct{ log, want string }{
		"text":       {"I1 a\nE1129 01:34 1 run.go:72] \"command failed\" err=\"failed: \\\"x\\\" is\\nwrong\"\n", `failed: "x" is wrong`},
		"json":       {`{"ts":1,"msg":"command failed","err":"no \u001b[31msocket"}`, "no [31msocket"},
		"after it":   {"E1 run.go:72] \"command failed\" err=\"a\"\nkubelet.service: Main process exited\n", "a"},
		"no error":   {"I1 a\npanic: b\n", "panic: b"},
		"panic":      {"panic: unrecognized [recovered]\n\ngoroutine 1:\nmain.main()\n", "panic: unrecognized [recovered]"},
		"nothing":    {"\n", "it did not say why"},
		"half of it": {"E1 run.go:72] \"command failed\" err=\"a", `E1 run.go:72] "command failed" err="a`},
		"not UTF-8":  {"a\xffb", "ab"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := LastError(c.log); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
