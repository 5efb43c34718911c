// Package remote reaches machines by SSH: it is what stands behind provision.Machine.
//
// Hosts are known by known_hosts files alone, nobody is asked and nothing is added to
// them; users log in by keys, of files or of an SSH agent. What a login refuses is a
// *provision.Problem with the command that mends it. It imports golang.org/x/crypto/ssh
// and internal/provision, and is imported by internal/cli.
package remote
