package remote

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// defaultIdentities are those that ssh tries, too.
var defaultIdentities = []string{"id_ed25519", "id_ecdsa", "id_rsa"}

// signers are the keys of files and of the SSH agent. A file that was named must be
// readable; of the others those are taken that are there and have no passphrase.
func signers(named []string, home, agentSocket string) ([]ssh.Signer, func() error, error) {
	var found []ssh.Signer
	for _, file := range named {
		s, err := readKey(file)
		if err != nil {
			return nil, nil, fmt.Errorf("--identity-file %s: %w", file, err)
		}
		found = append(found, s)
	}
	closer := func() error { return nil }
	//nolint:gosec // the socket is the user's own
	if connection, err := net.Dial("unix", agentSocket); agentSocket != "" && err == nil {
		closer = connection.Close
		if own, err := agent.NewClient(connection).Signers(); err == nil {
			found = append(found, own...)
		}
	}
	if len(named) == 0 {
		for _, name := range defaultIdentities {
			if s, err := readKey(filepath.Join(home, ".ssh", name)); err == nil {
				found = append(found, s)
			}
		}
	}
	if len(found) == 0 {
		return nil, closer, errors.New("there is no key to log in with: name one with --identity-file, or add it to an SSH agent with `ssh-add`")
	}
	return found, closer, nil
}

func readKey(file string) (ssh.Signer, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("there is no such file")
	}
	if err != nil {
		return nil, err
	}
	s, err := ssh.ParsePrivateKey(data)
	var protected *ssh.PassphraseMissingError
	if errors.As(err, &protected) {
		return nil, fmt.Errorf("it has a passphrase: add it to an SSH agent with `ssh-add %s`, and leave out the flag", file)
	}
	if err != nil {
		return nil, errors.New("it is no private key of OpenSSH or PEM")
	}
	return s, nil
}
