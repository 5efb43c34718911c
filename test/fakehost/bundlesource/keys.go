package bundlesource

import (
	"crypto/rand"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/slipway-dev/slipway/internal/hostbundle"
)

// NewKeys makes a pair of keys: what signs bundles, what verifies them, and the file of it.
func NewKeys(t testing.TB) (signer note.Signer, keys hostbundle.PublicKeys, public string) {
	t.Helper()
	private, public, err := note.GenerateKey(rand.Reader, "test")
	if err != nil {
		t.Fatal(err)
	}
	if signer, err = note.NewSigner(private); err != nil {
		t.Fatal(err)
	}
	if keys, err = hostbundle.ParsePublicKeys([]byte(public)); err != nil {
		t.Fatal(err)
	}
	return signer, keys, public
}
