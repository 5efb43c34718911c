// Command slipway-bundle builds and signs host bundles, which slipway-agent installs, and
// signs and verifies releases.
package main

import (
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"github.com/slipway-dev/slipway/internal/durable"
	"github.com/slipway-dev/slipway/internal/hostbundle"
	"github.com/slipway-dev/slipway/internal/hostbundle/recipe"
	"github.com/slipway-dev/slipway/internal/version"
)

const usage = `Usage:
  slipway-bundle keygen --name NAME --private-key FILE --public-key FILE
  slipway-bundle build --node-bundle DIR --images DIR --private-key FILE --output DIR [--agent ARCHITECTURE=FILE]...
  slipway-bundle sign --private-key FILE --version VERSION --release DIR
  slipway-bundle verify --public-key FILE --version VERSION --release DIR
  slipway-bundle version

keygen makes a pair of keys and replaces no file. build writes a signed bundle for each
Kubernetes version of a node bundle as an OCI image layout; "make host-bundle" calls it.
With --agent it writes that of slipway-agent, too, by which agents update themselves: the
programs must be of the version that "slipway-bundle version" prints.
sign writes SHA256SUMS.note, a signed note of the version and of SHA256SUMS, beside it;
"make release" calls it. verify compares all files in DIR, which may be a part of the
release, with that note: it ends with an error unless each of them is of the release of
that version and a public key holds for it.

Flags, all of them needed but --agent:
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
`

func main() {
	err := run(os.Args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Print(usage)
	case err != nil:
		fmt.Fprintln(os.Stderr, "slipway-bundle:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("want a command; see slipway-bundle help")
	}
	flags := flag.NewFlagSet("slipway-bundle "+args[0], flag.ContinueOnError)
	flags.Usage = func() {}
	privateKey := flags.String("private-key", "", "file with the private key")
	switch args[0] {
	case "help", "--help", "-help", "-h":
		return flag.ErrHelp
	case "version", "--version":
		fmt.Println(version.Version)
		return nil
	case "keygen":
		name := flags.String("name", "", "whose keys they are")
		publicKey := flags.String("public-key", "", "file with the public key")
		if err := parse(flags, args[1:]); err != nil {
			return err
		}
		return keygen(*name, *privateKey, *publicKey)
	case "build":
		nodeBundle := flags.String("node-bundle", "", "directory of the node bundle")
		images := flags.String("images", "", "directory of the image archives")
		output := flags.String("output", "", "directory to write, empty or not there yet")
		agents := programs{}
		flags.Var(agents, agentFlag, "slipway-agent for an architecture")
		if err := parse(flags, args[1:]); err != nil {
			return err
		}
		return build(*nodeBundle, *images, *privateKey, *output, agents)
	case "sign":
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

// agentFlag is the one flag that is not needed.
const agentFlag = "agent"

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
func parse(flags *flag.FlagSet, args []string) error {
	if err := flags.Parse(args); err != nil {
		return err
	}
	var missing []string
	flags.VisitAll(func(f *flag.Flag) {
		if f.Value.String() == "" && f.Name != agentFlag {
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
	flags := flag.NewFlagSet("slipway-bundle verify", flag.ContinueOnError)
	flags.Usage = func() {}
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

func build(nodeBundle, images, privateKey, output string, agents programs) error {
	signer, err := readSigner(privateKey)
	if err != nil {
		return err
	}
	w, err := hostbundle.NewWriter(output, signer)
	if err != nil {
		return err
	}
	versions, err := recipe.Build(w, nodeBundle, images)
	if err != nil {
		return err
	}
	what := "Kubernetes " + strings.Join(versions, " and ")
	if len(agents) > 0 {
		if err := recipe.Agent(w, version.Version, agents); err != nil {
			return err
		}
		what += ", and of slipway-agent " + version.Version
	}
	if err := w.Close(); err != nil {
		return err
	}
	fmt.Printf("host bundles of %s in %s, signed by %s\n", what, filepath.Clean(output), signer.Name())
	return nil
}
