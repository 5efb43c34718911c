package remote

import (
	"bytes"
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
	// authorities are the keys of lines that begin with @cert-authority, as on the wire.
	authorities map[string]bool
}

var (
	// plainAlgorithms are asked for in OpenSSH's order, so that both show the same key of a
	// server.
	plainAlgorithms = []string{
		ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256,
	}
	certificateAlgorithms = []string{
		ssh.CertAlgoED25519v01, ssh.CertAlgoECDSA256v01, ssh.CertAlgoECDSA384v01, ssh.CertAlgoECDSA521v01,
		ssh.CertAlgoRSASHA512v01, ssh.CertAlgoRSASHA256v01,
	}
)

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
	k := &hostKeys{check: check, file: files[0], authorities: map[string]bool{}}
	for _, f := range there {
		if err := k.readAuthorities(f); err != nil {
			return nil, fmt.Errorf("--known-hosts: %s: %w", f, err)
		}
	}
	return k, nil
}

func (k *hostKeys) readAuthorities(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for line := range bytes.Lines(data) {
		if !bytes.HasPrefix(bytes.TrimSpace(line), []byte("@cert-authority")) {
			continue
		}
		_, _, key, _, _, err := ssh.ParseKnownHosts(line)
		if err != nil {
			return err
		}
		k.authorities[string(key.Marshal())] = true
	}
	return nil
}

// known are the keys of an address, and whether an authority signs keys of it; neither for
// an unknown one.
func (k *hostKeys) known(address string) (plain []knownhosts.KnownKey, signed bool) {
	probe, err := ssh.NewPublicKey(ed25519.PublicKey(make([]byte, ed25519.PublicKeySize)))
	if err != nil {
		return nil, false
	}
	var mismatch *knownhosts.KeyError
	if !errors.As(k.check(address, &net.TCPAddr{}, probe), &mismatch) {
		return nil, false
	}
	return k.split(mismatch.Want)
}

// split tells keys of machines from those of authorities.
func (k *hostKeys) split(want []knownhosts.KnownKey) (plain []knownhosts.KnownKey, signed bool) {
	for _, known := range want {
		if k.authorities[string(known.Key.Marshal())] {
			signed = true
		} else {
			plain = append(plain, known)
		}
	}
	return plain, signed
}

// algorithms are those of the keys that are known of an address: a server with several
// keys shall show one of these.
func (k *hostKeys) algorithms(address string) []string {
	plain, signed := k.known(address)
	var found []string
	if signed {
		found = slices.Clone(certificateAlgorithms)
	}
	if len(plain) == 0 {
		return append(found, plainAlgorithms...)
	}
	for _, want := range plain {
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

// verify refuses a key that is not the one that is known. The machine is reached through
// jump, unless that is nil.
func (k *hostKeys) verify(t target, jump *target) ssh.HostKeyCallback {
	return func(address string, remote net.Addr, key ssh.PublicKey) error {
		err := k.check(address, remote, key)
		var mismatch *knownhosts.KeyError
		errors.As(err, &mismatch)
		var revoked *knownhosts.RevokedError
		shown := ssh.FingerprintSHA256(key)
		if certificate, ok := key.(*ssh.Certificate); ok && err != nil {
			return &provision.Problem{Reason: provision.ReasonHostKeyChanged, Err: err,
				Message: fmt.Sprintf("its host certificate of key ID %q does not hold: %s", certificate.KeyId, err),
				Remedy:  "see who answers at " + t.address() + "; if it is the machine, have an authority of known_hosts sign its key for the name by which you call it"}
		}
		var known []knownhosts.KnownKey
		signed := false
		if mismatch != nil {
			known, signed = k.split(mismatch.Want)
		}
		switch {
		case errors.As(err, &revoked):
			return &provision.Problem{Reason: provision.ReasonHostKeyChanged, Err: err,
				Message: fmt.Sprintf("its host key %s is revoked by %s", shown, revoked.Revoked.Filename), Remedy: "see who answers at " + t.address()}
		case len(known) > 0:
			return &provision.Problem{Reason: provision.ReasonHostKeyChanged, Err: err,
				Message: fmt.Sprintf("its host key %s is not the one of %s:%d: somebody else may answer there", shown, known[0].Filename, known[0].Line),
				Remedy:  "if the machine was made anew, " + k.replace(t, jump, known[0].Filename)}
		case signed:
			return &provision.Problem{Reason: provision.ReasonHostKeyUnknown, Err: err,
				Message: fmt.Sprintf("known_hosts wants a certificate of an authority of it, and it shows the key %s %s without one", key.Type(), shown),
				Remedy:  "have that authority sign its host key, and set HostCertificate in its sshd_config"}
		case mismatch != nil:
			return &provision.Problem{Reason: provision.ReasonHostKeyUnknown, Err: err,
				Message: fmt.Sprintf("no known_hosts file has its host key: it shows %s %s", key.Type(), shown),
				Remedy:  fmt.Sprintf("compare that with the console of the machine (ssh-keygen -lf %s), then %s", keyFile(key), k.scan(t, jump))}
		}
		return err
	}
}

// keyFile is where sshd has such a key.
func keyFile(key ssh.PublicKey) string {
	kind := "ed25519"
	switch key.Type() {
	case ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521:
		kind = "ecdsa"
	case ssh.KeyAlgoRSA:
		kind = "rsa"
	}
	return "/etc/ssh/ssh_host_" + kind + "_key.pub"
}

// scan is the command that adds the keys of an address. ssh-keyscan goes through no jump
// host; ssh asks there.
func (k *hostKeys) scan(t target, jump *target) string {
	if jump != nil {
		return fmt.Sprintf("log in once and answer its question: ssh -o UserKnownHostsFile=%s -J %s@%s -p %s %s@%s true", k.file, jump.user, jump.address(), t.port, t.user, t.host)
	}
	return strings.Join([]string{"ssh-keyscan", "-p", t.port, t.host, ">>" + k.file}, " ")
}

// replace is the commands that change the keys of an address.
func (k *hostKeys) replace(t target, jump *target, file string) string {
	return fmt.Sprintf("ssh-keygen -R '%s' -f %s, then %s", knownhosts.Normalize(t.address()), file, k.scan(t, jump))
}
