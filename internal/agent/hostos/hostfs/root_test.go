package hostfs

import "testing"

func TestAt(t *testing.T) {
	for dir, want := range map[string]string{
		"": "/etc", "/": "/etc", "//": "/etc", "/.": "/etc", "/mnt/..": "/etc",
		"/mnt": "/mnt/etc", "/mnt/": "/mnt/etc", "/mnt//": "/mnt/etc", "/mnt/./disk": "/mnt/disk/etc",
	} {
		root := At(dir)
		if got := root.Path("/etc"); got != want {
			t.Errorf("/etc below %q is %q, want %q", dir, got, want)
		}
		if host := want == "/etc"; host != (root == "") {
			t.Errorf("%q is the host itself: %v", dir, !host)
		}
	}
}
