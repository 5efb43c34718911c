// Command slipway-bundle builds and signs host bundles, which slipway-agent installs, and
// signs and verifies releases.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/mod/sumdb/note"

	"github.com/slipway-dev/slipway/internal/durable"
	"github.com/slipway-dev/slipway/internal/hostbundle"
	"github.com/slipway-dev/slipway/internal/version"
)

const usage = `Usage:
  slipway-bundle keygen --name NAME --private-key FILE --public-key FILE
  slipway-bundle lock VERSION [--arch LIST] [--image NAME]... [--containerd VERSION] [--runc VERSION] [--cni-plugins VERSION] [--trusted-root FILE] [FETCHING]
  slipway-bundle lock --urls FILE
  slipway-bundle build --lock FILE... [--from DIR] [FETCHING] --private-key FILE --output DIR [--agent ARCHITECTURE=FILE]...
  slipway-bundle build --node-bundle DIR --images DIR --private-key FILE --output DIR [--agent ARCHITECTURE=FILE]...
  slipway-bundle sign --private-key FILE --version VERSION --release DIR
  slipway-bundle verify --public-key FILE --version VERSION --release DIR
  slipway-bundle version

keygen makes a pair of keys and replaces no file.

lock prints a lock of upstream's own binaries and images of a Kubernetes version: address, size
and digest of each, and how it was verified. The programs of Kubernetes must be signed by its
release process; what upstream does not sign is compared with its checksum. It downloads all
programs, and runs kubeadm to list the images. lock --urls prints what a lock names, one a line:
the address, and the path below a directory for --from or a --mirror.

build writes signed bundles as an OCI image layout: with --lock that of a lock, whose digests
everything must have; the same lock and key give the same bytes. Without, one for each version
of a node bundle; "make host-bundle" calls it. With --agent it writes that of slipway-agent, too, by which agents update themselves: the
programs must be of the version that "slipway-bundle version" prints.
sign writes SHA256SUMS.note, a signed note of the version and of SHA256SUMS, beside it;
"make release" calls it. verify compares all files in DIR, which may be a part of the
release, with that note: it ends with an error unless each of them is of the release of
that version and a public key holds for it.

Flags:
  --arch string
        architectures as Go names them, such as amd64,arm64; by default that of this machine
  --image NAME
        a further image with its tag, such as one of the cluster's network; once for each
  --containerd, --runc, --cni-plugins string
        their versions (default {{containerd}}, {{runc}}, {{cni}})
  --trusted-root string
        file with the trust root of Sigstore; by default that of the public one
  --lock string
        file with a lock; once for each version
  --urls string
        file with the lock to print the addresses of
  --from string
        directory with what lock --urls prints; nothing is downloaded
  --name string
        whose keys they are, such as a domain
  --private-key string
        file with the private key, which nobody else may read
  --public-key string
        file with the public key, which hosts and users are given; in verify it may hold
        several, one a line
  --node-bundle string
        directory of the node bundle
  --images string
        directory of the image archives
  --output string
        directory to write, empty or not there yet
  --agent ARCHITECTURE=FILE
        slipway-agent for an architecture as Go names it, such as amd64; once for each
  --version string
        version of the release, such as v0.1.0
  --release string
        directory of the release, with SHA256SUMS

Flags of FETCHING. Proxies are those of HTTPS_PROXY and NO_PROXY. An interrupted download
continues with the next run:
  --mirror URL
        address below which upstream's files are at HOST/PATH; once for each, tried in order
        before upstream. Tags of images are always resolved by their own registry
  --cache string
        directory that keeps what was verified (default {{cache}})
  --ca-file string
        file with CAs that are trusted besides those of the system
  --registry-config string
        file with credentials of registries, as docker login writes them
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Print(help())
	case err != nil:
		fmt.Fprintln(os.Stderr, "slipway-bundle:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("want a command; see slipway-bundle help")
	}
	flags := newFlags(args[0])
	switch args[0] {
	case "help", "--help", "-help", "-h":
		return flag.ErrHelp
	case "version", "--version":
		fmt.Println(version.Version)
		return nil
	case "keygen":
		privateKey := flags.String("private-key", "", "file with the private key")
		name := flags.String("name", "", "whose keys they are")
		publicKey := flags.String("public-key", "", "file with the public key")
		if err := parse(flags, args[1:]); err != nil {
			return err
		}
		return keygen(*name, *privateKey, *publicKey)
	case "lock":
		return lock(ctx, args[1:], os.Stdout)
	case "build":
		return build(ctx, args[1:])
	case "sign":
		privateKey := flags.String("private-key", "", "file with the private key")
		release := flags.String("release", "", "directory of the release")
		of := flags.String("version", "", "version of the release")
		if err := parse(flags, args[1:]); err != nil {
			return err
		}
		return sign(*release, *of, *privateKey)
	case "verify":
		return verify(args[1:])
	}
	return fmt.Errorf("%q is no command; see slipway-bundle help", args[0])
}

func newFlags(command string) *flag.FlagSet {
	flags := flag.NewFlagSet("slipway-bundle "+command, flag.ContinueOnError)
	flags.Usage = func() {}
	return flags
}

// programs are files by the architecture that they are for.
type programs map[string]string

// String implements flag.Value.
func (programs) String() string { return "" }

// Set implements flag.Value.
func (p programs) Set(value string) error {
	architecture, file, _ := strings.Cut(value, "=")
	if architecture == "" || file == "" || p[architecture] != "" {
		return errors.New("want ARCHITECTURE=FILE, once for each architecture")
	}
	p[architecture] = file
	return nil
}

// parse wants each flag that is needed, with a value, and nothing else.
func parse(flags *flag.FlagSet, args []string, optional ...string) error {
	if err := flags.Parse(args); err != nil {
		return err
	}
	var missing []string
	flags.VisitAll(func(f *flag.Flag) {
		if f.Value.String() == "" && !slices.Contains(optional, f.Name) {
			missing = append(missing, "--"+f.Name)
		}
	})
	if len(missing) > 0 || flags.NArg() > 0 {
		return fmt.Errorf("%s: missing %s; arguments that are not flags: %q", flags.Name(), strings.Join(missing, ", "), flags.Args())
	}
	return nil
}

// keygen replaces no file: a private key cannot be made again.
func keygen(name, privateKey, publicKey string) error {
	private, public, err := note.GenerateKey(rand.Reader, name)
	if err != nil {
		return fmt.Errorf("--name %q: %w", name, err)
	}
	// GenerateKey takes names that are refused when a key is read
	if _, err := note.NewVerifier(public); err != nil {
		return fmt.Errorf("--name %q: want a name without spaces and plus signs", name)
	}
	if err := create(privateKey, private, 0o600); err != nil {
		return err
	}
	return create(publicKey, public, 0o644)
}

func create(path, line string, mode os.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	return errors.Join(err, durable.SyncFile(f), f.Close())
}

func readSigner(privateKey string) (note.Signer, error) {
	data, err := os.ReadFile(privateKey)
	if err != nil {
		return nil, err
	}
	signer, err := note.NewSigner(strings.TrimSpace(string(data)))
	if err != nil {
		return nil, fmt.Errorf("%s holds no private key as slipway-bundle keygen writes it", privateKey)
	}
	return signer, nil
}

func sign(release, of, privateKey string) error {
	signer, err := readSigner(privateKey)
	if err != nil {
		return err
	}
	if err := hostbundle.SignRelease(release, of, signer); err != nil {
		return err
	}
	fmt.Printf("release %s in %s, signed by %s\n", of, filepath.Clean(release), signer.Name())
	return nil
}

func verify(args []string) error {
	flags := newFlags("verify")
	publicKey := flags.String("public-key", "", "file with public keys")
	dir := flags.String("release", "", "directory of the release")
	of := flags.String("version", "", "the release that it must be")
	if err := parse(flags, args); err != nil {
		return err
	}
	data, err := os.ReadFile(*publicKey)
	if err != nil {
		return err
	}
	keys, err := hostbundle.ParsePublicKeys(data)
	if err != nil {
		return fmt.Errorf("%s: %w", *publicKey, err)
	}
	release, err := hostbundle.VerifyRelease(*dir, *of, keys.Verifiers())
	if err != nil {
		return err
	}
	fmt.Printf("%d files are those of release %s, signed by %s\n", len(release.Verified), release.Version, strings.Join(release.Signers, " and "))
	if len(release.Missing) > 0 {
		fmt.Printf("%d others of it are not here\n", len(release.Missing))
	}
	return nil
}
