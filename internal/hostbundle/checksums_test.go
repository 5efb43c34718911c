package hostbundle

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"
)

func newReleaseKey(t *testing.T) (note.Signer, note.Verifiers) {
	t.Helper()
	private, public, err := note.GenerateKey(rand.Reader, "example.com")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := note.NewVerifier(public)
	if err != nil {
		t.Fatal(err)
	}
	return signer, note.VerifierList(verifier)
}

func writeReleaseFile(t *testing.T, dir, name, content string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// newRelease is a signed one of three files.
func newRelease(t *testing.T, signer note.Signer) string {
	t.Helper()
	dir := t.TempDir()
	var list strings.Builder
	for _, name := range []string{"assets/agent", "assets/manager", "repository/x/v0.1.0/metadata.yaml"} {
		writeReleaseFile(t, dir, name, "content of "+name)
		fmt.Fprintf(&list, "%s  %s\n", digestOf([]byte("content of "+name)), name)
	}
	writeReleaseFile(t, dir, ChecksumsList, list.String())
	if err := SignRelease(dir, "v0.1.0", signer); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestVerify(t *testing.T) {
	signer, keys := newReleaseKey(t)
	dir := newRelease(t, signer)
	got, err := VerifyRelease(dir, "v0.1.0", keys)
	if err != nil || got.Version != "v0.1.0" || !slices.Equal(got.Signers, []string{"example.com"}) || len(got.Verified) != 3 || len(got.Missing) != 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	// Few download all of it, or the list without its signature.
	if err := errors.Join(os.Remove(filepath.Join(dir, "assets/manager")), os.Remove(filepath.Join(dir, ChecksumsList))); err != nil {
		t.Fatal(err)
	}
	got, err = VerifyRelease(dir, "v0.1.0", keys)
	if err != nil || len(got.Verified) != 2 || !slices.Equal(got.Missing, []string{"assets/manager"}) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestWhatIsNotOfTheReleaseIsRefused(t *testing.T) {
	signer, keys := newReleaseKey(t)
	foreign, _ := newReleaseKey(t)
	for name, c := range map[string]struct {
		change func(t *testing.T, dir string)
		want   string
	}{
		"changed": {func(t *testing.T, dir string) { writeReleaseFile(t, dir, "assets/agent", "another") }, "assets/agent (differs)"},
		"added":   {func(t *testing.T, dir string) { writeReleaseFile(t, dir, "assets/extra", "") }, "assets/extra (not listed)"},
		"another version": {func(t *testing.T, dir string) {
			if err := SignRelease(dir, "v0.0.9", signer); err != nil {
				t.Fatal(err)
			}
		}, "is that of release v0.0.9, not of v0.1.0"},
		"list": {func(t *testing.T, dir string) { writeReleaseFile(t, dir, ChecksumsList, "") }, "SHA256SUMS (differs)"},
		"nothing there": {func(t *testing.T, dir string) {
			_ = os.RemoveAll(dir + "/assets")
			_ = os.RemoveAll(dir + "/repository")
		}, "no file of release v0.1.0"},
		"no note": {func(_ *testing.T, dir string) { _ = os.Remove(filepath.Join(dir, ChecksumsNote)) }, "no such file"},
		"link": {func(t *testing.T, dir string) {
			writeReleaseFile(t, t.TempDir(), "agent", "")
			_ = os.Remove(dir + "/assets/agent")
			_ = os.Symlink("manager", dir+"/assets/agent")
		}, "assets/agent (not listed)"},
		"list and note by another key": {func(t *testing.T, dir string) {
			if err := SignRelease(dir, "v0.1.0", foreign); err != nil {
				t.Fatal(err)
			}
		}, "not signed by a key that is trusted here"},
		"note with another line": {func(t *testing.T, dir string) {
			data, err := os.ReadFile(filepath.Join(dir, ChecksumsNote))
			if err != nil {
				t.Fatal(err)
			}
			writeReleaseFile(t, dir, ChecksumsNote, strings.Replace(string(data), "v0.1.0\n", "v0.2.0\n", 1))
		}, "not signed by a key that is trusted here"},
		"a signature for something else": {func(t *testing.T, dir string) {
			signed, err := note.Sign(&note.Note{Text: "slipway.dev/host-bundle/v1\nv1.36.3\nsha256:00\n"}, signer)
			if err != nil {
				t.Fatal(err)
			}
			writeReleaseFile(t, dir, ChecksumsNote, string(signed))
		}, "what is signed is no release"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := newRelease(t, signer)
			c.change(t, dir)
			if got, err := VerifyRelease(dir, "v0.1.0", keys); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v, %v; want %q", got, err, c.want)
			}
		})
	}
}

func TestWhatIsNoListIsNotSigned(t *testing.T) {
	signer, _ := newReleaseKey(t)
	sum := digestOf(nil)
	for name, list := range map[string]string{
		"outside": sum + "  ../a\n", "absolute": sum + "  /a\n", "twice": sum + "  a\n" + sum + "  a\n", "short": sum[1:] + "  a\n", "empty line": sum + "  a\n\n",
	} {
		dir := t.TempDir()
		writeReleaseFile(t, dir, ChecksumsList, list)
		if err := SignRelease(dir, "v0.1.0", signer); err == nil {
			t.Errorf("%s: signed", name)
		}
	}
	dir := t.TempDir()
	writeReleaseFile(t, dir, ChecksumsList, sum+"  a\n")
	if err := SignRelease(dir, "0.1.0", signer); err == nil {
		t.Error("signed without a version")
	}
}
