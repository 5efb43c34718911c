package hostbundle

import (
	"errors"
	"fmt"
	"strings"

	"github.com/opencontainers/go-digest"
	"golang.org/x/mod/sumdb/note"
)

// statementType is the first line of what is signed, so that a signature for another
// purpose is none here.
const statementType = "slipway.dev/host-bundle/v1"

// statement is the text that a signature vouches for. It has the tag, so that the bundle of
// one version does not pass for that of another, nor the agent for Kubernetes.
func statement(tag string, index digest.Digest) string {
	return fmt.Sprintf("%s\n%s\n%s\n", statementType, tag, index)
}

// PublicKeys are the keys of which any may have signed a bundle.
type PublicKeys struct{ verifiers note.Verifiers }

// ParsePublicKeys reads one key a line, as note.GenerateKey writes it; empty lines and
// those that begin with # are skipped. During a change of keys the file holds both.
func ParsePublicKeys(data []byte) (PublicKeys, error) {
	var list []note.Verifier
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		// The library's error does not repeat the key.
		verifier, err := note.NewVerifier(line)
		if err != nil {
			return PublicKeys{}, fmt.Errorf("want a public key in each line, NAME+HASH+KEY as slipway-bundle keygen writes it: %w", err)
		}
		list = append(list, verifier)
	}
	if len(list) == 0 {
		return PublicKeys{}, errors.New("it holds no public key")
	}
	return PublicKeys{note.VerifierList(list...)}, nil
}

// Verifiers of the keys, for what is signed in the same way.
func (k PublicKeys) Verifiers() note.Verifiers { return k.verifiers }

// Verify holds that one of the notes says that index is the bundle of the tag. The error is an *Error otherwise.
func (k PublicKeys) Verify(tag string, index digest.Digest, notes [][]byte) error {
	if len(notes) == 0 {
		return fail(ReasonUnsigned, "the bundle of %s is not signed", Title(tag))
	}
	if k.verifiers == nil {
		return fail(ReasonUntrusted, "no public key was given")
	}
	var errs []error
	for _, signed := range notes {
		opened, err := note.Open(signed, k.verifiers)
		switch {
		case err != nil:
			errs = append(errs, err)
		case opened.Text != statement(tag, index):
			errs = append(errs, errors.New("a signature is for something else"))
		default:
			return nil
		}
	}
	return fail(ReasonUntrusted, "no signature of the bundle of %s is by a key that is trusted here: %w", Title(tag), errors.Join(errs...))
}
