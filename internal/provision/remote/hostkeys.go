package remote

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/slipway-dev/slipway/internal/provision"
)

// hostKeys are the known_hosts files.
type hostKeys struct {
	check ssh.HostKeyCallback
	// file is the first of them, to which the user adds.
	file string
}

func readHostKeys(files []string) (*hostKeys, error) {
	var there []string
	for _, f := range files {
		if _, err := os.Stat(f); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		there = append(there, f)
	}
	check, err := knownhosts.New(there...)
	if err != nil {
		return nil, fmt.Errorf("--known-hosts: %w", err)
	}
	return &hostKeys{check: check, file: files[0]}, nil
}

// algorithms are those of the keys that are known of an address: a server with several
// keys shall show one of these. Nil for an unknown one.
func (k *hostKeys) algorithms(address string) []string {
	probe, err := ssh.NewPublicKey(ed25519.PublicKey(make([]byte, ed25519.PublicKeySize)))
	if err != nil {
		return nil
	}
	var mismatch *knownhosts.KeyError
	if !errors.As(k.check(address, &net.TCPAddr{}, probe), &mismatch) {
		return nil
	}
	var found []string
	for _, want := range mismatch.Want {
		kinds := []string{want.Key.Type()}
		if want.Key.Type() == ssh.KeyAlgoRSA {
			kinds = []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
		}
		for _, kind := range kinds {
			if !slices.Contains(found, kind) {
				found = append(found, kind)
			}
		}
	}
	return found
}

// verify refuses a key that is not the one that is known.
func (k *hostKeys) verify(t target) ssh.HostKeyCallback {
	return func(address string, remote net.Addr, key ssh.PublicKey) error {
		err := k.check(address, remote, key)
		var mismatch *knownhosts.KeyError
		var revoked *knownhosts.RevokedError
		shown := ssh.FingerprintSHA256(key)
		switch {
		case errors.As(err, &revoked):
			return &provision.Problem{Reason: provision.ReasonHostKeyChanged, Err: err,
				Message: fmt.Sprintf("its host key %s is revoked by %s", shown, revoked.Revoked.Filename), Remedy: "see who answers at " + t.address()}
		case errors.As(err, &mismatch) && len(mismatch.Want) > 0:
			return &provision.Problem{Reason: provision.ReasonHostKeyChanged, Err: err,
				Message: fmt.Sprintf("its host key %s is not the one of %s:%d: somebody else may answer there", shown, mismatch.Want[0].Filename, mismatch.Want[0].Line),
				Remedy:  "if the machine was made anew, " + k.replace(t, mismatch.Want[0].Filename)}
		case errors.As(err, &mismatch):
			return &provision.Problem{Reason: provision.ReasonHostKeyUnknown, Err: err,
				Message: fmt.Sprintf("no known_hosts file has its host key: it shows %s %s", key.Type(), shown),
				Remedy:  fmt.Sprintf("compare that with the console of the machine (ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub), then %s", k.scan(t))}
		}
		return err
	}
}

// scan is the command that adds the keys of an address.
func (k *hostKeys) scan(t target) string {
	return strings.Join([]string{"ssh-keyscan", "-p", t.port, t.host, ">>" + k.file}, " ")
}

// replace is the commands that change the keys of an address.
func (k *hostKeys) replace(t target, file string) string {
	return fmt.Sprintf("ssh-keygen -R '%s' -f %s, then %s", knownhosts.Normalize(t.address()), file, k.scan(t))
}
