package cli

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"filippo.io/age"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	componentversion "k8s.io/component-base/version"

	"github.com/slipway-dev/slipway/internal/cli"
	"github.com/slipway-dev/slipway/plane/internal/backup"
	"github.com/slipway-dev/slipway/plane/internal/instance"
	"github.com/slipway-dev/slipway/plane/internal/progress"
)

// errNoKey is for commands that write or read what only a key opens.
var errNoKey = errors.New("a backup holds keys of every cluster, so it is always encrypted")

// keyFlags name who can open a backup.
type keyFlags struct {
	recipients     []string
	identities     []string
	passphraseFile string
}

func (f *keyFlags) bindPassphrase(flags *pflag.FlagSet) {
	flags.StringVar(&f.passphraseFile, "passphrase-file", "", "file with the passphrase of the backup, instead of a key; without the line break at its end")
}

func (f *keyFlags) bindIdentity(flags *pflag.FlagSet) {
	flags.StringArrayVarP(&f.identities, "identity", "i", nil, "file with the private key that opens the backup, as of slipway backup keygen or age-keygen; may be given several times")
	f.bindPassphrase(flags)
}

func (f *keyFlags) passphrase() (string, error) {
	text, err := os.ReadFile(f.passphraseFile)
	if err != nil {
		return "", fmt.Errorf("--passphrase-file: %w", err)
	}
	passphrase := strings.TrimRight(string(text), "\r\n")
	if passphrase == "" {
		return "", fmt.Errorf("--passphrase-file %s: the first line is empty", f.passphraseFile)
	}
	return passphrase, nil
}

func (f *keyFlags) readRecipients() ([]age.Recipient, error) {
	switch {
	case f.passphraseFile != "" && len(f.recipients) > 0:
		return nil, errors.New("give either --recipient or --passphrase-file: age does not mix them")
	case f.passphraseFile != "":
		passphrase, err := f.passphrase()
		if err != nil {
			return nil, err
		}
		recipient, err := age.NewScryptRecipient(passphrase)
		return []age.Recipient{recipient}, err
	case len(f.recipients) == 0:
		return nil, fmt.Errorf("%w: give the --recipient that `slipway backup keygen FILE` prints, or a --passphrase-file", errNoKey)
	}
	recipients, err := age.ParseRecipients(strings.NewReader(strings.Join(f.recipients, "\n")))
	if err != nil {
		return nil, fmt.Errorf("--recipient: want age1…, the public half of a key: %w", err)
	}
	return recipients, nil
}

func (f *keyFlags) readIdentities() ([]age.Identity, error) {
	if f.passphraseFile != "" {
		passphrase, err := f.passphrase()
		if err != nil {
			return nil, err
		}
		identity, err := age.NewScryptIdentity(passphrase)
		return []age.Identity{identity}, err
	}
	if len(f.identities) == 0 {
		return nil, fmt.Errorf("%w: give the --identity of `slipway backup keygen`, or the --passphrase-file", errNoKey)
	}
	var all []age.Identity
	for _, name := range f.identities {
		file, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("--identity: %w", err)
		}
		identities, err := age.ParseIdentities(file)
		if err := errors.Join(err, file.Close()); err != nil {
			// What does not parse may be a key: its text is not repeated.
			return nil, fmt.Errorf("--identity %s: want a file of `slipway backup keygen` or age-keygen, with a line AGE-SECRET-KEY-1…", name)
		}
		all = append(all, identities...)
	}
	return all, nil
}

func backupCommand(g *global) *cobra.Command {
	command := &cobra.Command{
		Use:   "backup",
		Short: "Write all of the plane into one encrypted file, and verify such files",
	}
	command.AddCommand(backupCreateCommand(g), backupVerifyCommand(), backupKeygenCommand())
	return command
}

func backupCreateCommand(g *global) *cobra.Command {
	var f keyFlags
	var to, output string
	var keep int
	command := &cobra.Command{
		Use:   "create",
		Short: "Write all of the plane into one encrypted file, while it serves",
		Long: `Write all of the plane into one encrypted file, while it serves: a snapshot of etcd, the
certificate authority, the key that Secrets are encrypted with, and its settings. "slipway
restore" makes a plane of it, on this or another machine. Hosts, their clusters and host
bundles are not in it.

The plane needs the public half of a key only; keep the private one elsewhere. The file is
in the format of age. Before it is written, a real etcd has opened the snapshot.`,
		Example: `  slipway backup keygen /media/key/plane.txt
  slipway backup create --to /mnt/backups --keep 28 --recipient age1…
  slipway backup verify /mnt/backups/slipway-20261129T083000Z.slipway-backup -i /media/key/plane.txt`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runBackup(cmd, g, f, to, keep, output) },
	}
	flags := command.Flags()
	flags.StringVar(&to, "to", "", "directory to write the backup to")
	flags.StringArrayVarP(&f.recipients, "recipient", "r", nil, "public key that the backup is encrypted for; may be given several times")
	f.bindPassphrase(flags)
	flags.IntVar(&keep, "keep", 0, "remove the oldest backups of this plane from the directory once there are more than this; 0 keeps all")
	cli.OutputFlag(command, &output)
	return command
}

func runBackup(cmd *cobra.Command, g *global, f keyFlags, to string, keep int, output string) error {
	if keep < 0 {
		return fmt.Errorf("--keep %d: want how many backups to keep, or 0 for all", keep)
	}
	if to == "" {
		return errors.New("--to: want the directory to write the backup to, best on another machine")
	}
	recipients, err := f.readRecipients()
	if err != nil {
		return err
	}
	inst, err := g.open()
	if err != nil {
		return err
	}
	var made *backup.Result
	err = step("backup", func(s *progress.Step) error {
		var err error
		made, err = backup.Create(cmd.Context(), backup.Options{
			Instance: inst, Kubernetes: componentversion.Get().GitVersion, To: to, Keep: keep, Recipients: recipients, Progress: s.Waitf,
		})
		return err
	}, func() string { return summary(made.Content) })
	if err != nil {
		return err
	}
	return cli.Show(cmd, output, made, fmt.Sprintf("Wrote %s, %.1f MB.\n", made.Path, float64(made.Size)/1e6))
}

func backupVerifyCommand() *cobra.Command {
	var f keyFlags
	var output string
	command := &cobra.Command{
		Use:   "verify FILE",
		Short: "Read a backup as a restore does, and change nothing",
		Long: `Read a backup as a restore does, in a temporary directory: decrypt it, compare all of it
with its SHA-256, restore etcd, have a real etcd open it, and count its objects.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			source, err := f.source(args[0])
			if err != nil {
				return err
			}
			var m *backup.Manifest
			err = step("backup", func(s *progress.Step) error {
				var err error
				source.Progress = s.Waitf
				m, err = backup.Verify(cmd.Context(), *source)
				return err
			}, func() string { return summary(m.Content) })
			if err != nil {
				return err
			}
			return cli.Show(cmd, output, m, fmt.Sprintf("%s is a whole backup of plane %s, of %s, by slipway %s with Kubernetes %s.\n",
				args[0], m.Name, m.Created.Format("2006-01-02 15:04:05 UTC"), m.Slipway, m.Kubernetes))
		},
	}
	f.bindIdentity(command.Flags())
	cli.OutputFlag(command, &output)
	return command
}

func (f *keyFlags) source(path string) (*backup.Source, error) {
	identities, err := f.readIdentities()
	return &backup.Source{Path: path, Identities: identities, Kubernetes: componentversion.Get().GitVersion}, err
}

func backupKeygenCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "keygen FILE",
		Short: "Write a key that opens backups, and print its public half",
		Long: `Write a key that opens backups to a new file, and print its public half, the recipient.
Keep the file away from this machine: whoever has it and a backup has every cluster, and
without it a backup is worth nothing.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			recipient, err := backup.WriteKey(args[0])
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), recipient)
			return err
		},
	}
}

func restoreCommand(g *global) *cobra.Command {
	var f keyFlags
	var replace bool
	var output string
	command := &cobra.Command{
		Use:   "restore FILE",
		Short: "Make a plane of a backup",
		Long: `Make a plane of a backup, in the state directory: one that does not exist, or with
--replace that of the same plane, stopped, whose data is kept beside. The plane is not
started. Restore backups only that you know the origin of: whoever has the public half of
your key can write one.

Make sure that the former plane never serves again: hosts must not get orders from two.
Machines, hosts and clusters continue meanwhile. A host that was claimed or released since
the backup refuses its orders until you decide, and is not reset. Programs that watched the former
plane list anew by themselves.`,
		Example: `  slipway restore /mnt/backups/slipway-20261129T083000Z.slipway-backup -i /media/key/plane.txt
  slipway install --listen 192.0.2.10`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return runRestore(cmd, g, f, args[0], replace, output) },
	}
	flags := command.Flags()
	f.bindIdentity(flags)
	flags.BoolVar(&replace, "replace", false, "restore in place of the same plane, which must be stopped; its data is kept in a directory beside")
	cli.OutputFlag(command, &output)
	return command
}

func runRestore(cmd *cobra.Command, g *global, f keyFlags, path string, replace bool, output string) error {
	source, err := f.source(path)
	if err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return errNotRoot
	}
	if existing, err := g.open(); err == nil {
		lock, err := existing.Lock()
		if err != nil {
			return err
		}
		defer lock.Release()
	} else if !errors.Is(err, instance.ErrNone) {
		return err
	}
	var m *backup.Manifest
	var kept string
	err = step("restore", func(s *progress.Step) error {
		var err error
		source.Progress = s.Waitf
		m, kept, err = backup.Restore(cmd.Context(), *source, g.stateDir, replace)
		return err
	}, func() string { return summary(m.Content) })
	if err != nil {
		return err
	}
	text := fmt.Sprintf("Restored plane %s as of %s into %s.\n", m.Name, m.Created.Format("2006-01-02 15:04:05 UTC"), g.stateDir)
	if kept != "" {
		text += fmt.Sprintf("What was there is in %s; remove it when all is well.\n", kept)
	}
	text += fmt.Sprintf("Next: `%[1]s install`, or `%[1]s up --no-cluster`; with --listen if the address of this machine is another one. Load host bundles again by `%[1]s bundle load`.\n", g.command())
	return cli.Show(cmd, output, m, text)
}

// summary of a backup's content, for a person.
func summary(c backup.Content) string {
	return fmt.Sprintf("%d objects: %d clusters, %d machines, %d hosts, %d secrets", c.Objects, c.Clusters, c.Machines, c.Hosts, c.Secrets)
}

// step shows what a command is doing, and how it ended.
func step(name string, do func(*progress.Step) error, done func() string) error {
	tree := progress.New(os.Stderr)
	defer tree.Close()
	s := tree.Step(name)
	if err := do(s); err != nil {
		s.Fail()
		return err
	}
	s.Donef("%s", done())
	return nil
}
