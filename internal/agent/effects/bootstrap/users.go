package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/agent/effects/cloudconfig"
	"github.com/slipway-dev/slipway/internal/agent/effects/logins"
	"github.com/slipway-dev/slipway/internal/durable"
)

// sudoersFile holds the rules of all users of the bootstrap data.
const sudoersFile = "/etc/sudoers.d/90-slipway-users"

// users makes the accounts that do not exist and sets what the data says about
// each. What is about to be made or changed is on record first, so that a reset can undo
// it.
func (a Applier) users(ctx context.Context, users []cloudconfig.User, progress operation.Progress) error {
	var rules strings.Builder
	for _, u := range users {
		if err := a.user(ctx, u, progress); err != nil {
			return fmt.Errorf("users, %s: %w", u.Name, err)
		}
		for _, rule := range u.Sudo {
			fmt.Fprintf(&rules, "%s %s\n", u.Name, rule)
		}
	}
	if rules.Len() == 0 {
		return nil
	}
	if err := a.keep([]string{sudoersFile}, progress); err != nil {
		return err
	}
	return a.writeFile(cloudconfig.File{Path: sudoersFile, Content: []byte(rules.String()), Mode: 0o440})
}

func (a Applier) user(ctx context.Context, u cloudconfig.User, progress operation.Progress) error {
	if _, exists := lookupUser(a.Root, u.Name); !exists {
		err := progress.Update(func(s *journal.State) {
			if !slices.Contains(s.Users, u.Name) {
				s.Users = append(s.Users, u.Name)
			}
		})
		if err != nil {
			return err
		}
		if err := a.addUser(ctx, u, progress); err != nil {
			return err
		}
	}
	if u.PasswordHash != "" || u.LockPassword {
		if err := a.recordPassword(u.Name, progress); err != nil {
			return err
		}
	}
	if u.PasswordHash != "" {
		// On standard input: arguments can be read by every process.
		if _, err := a.Runner.RunInput(ctx, []byte(u.Name+":"+u.PasswordHash+"\n"), "chpasswd", "-e"); err != nil {
			return err
		}
	}
	if u.LockPassword {
		if _, err := a.Runner.Run(ctx, "usermod", "--lock", u.Name); err != nil {
			return err
		}
	}
	return a.authorizeKeys(u, progress)
}

// recordPassword keeps the password field of an account that the bootstrap did not make.
func (a Applier) recordPassword(name string, progress operation.Progress) error {
	state := progress.State()
	if _, known := state.Passwords[name]; known || slices.Contains(state.Users, name) {
		return nil
	}
	password, has, err := logins.Password(a.Root, name)
	if err != nil || !has {
		return err
	}
	return progress.Update(func(s *journal.State) {
		if s.Passwords == nil {
			s.Passwords = map[string]string{}
		}
		s.Passwords[name] = password
	})
}

func (a Applier) addUser(ctx context.Context, u cloudconfig.User, progress operation.Progress) error {
	for _, group := range append([]string{u.PrimaryGroup}, u.Groups...) {
		if group == "" {
			continue
		}
		if _, exists := lookupGroup(a.Root, group); exists {
			continue
		}
		err := progress.Update(func(s *journal.State) {
			if !slices.Contains(s.Groups, group) {
				s.Groups = append(s.Groups, group)
			}
		})
		if err != nil {
			return err
		}
		if _, err := a.Runner.Run(ctx, "groupadd", group); err != nil {
			return err
		}
	}
	_, err := a.Runner.Run(ctx, "useradd", userArguments(u)...)
	return err
}

func userArguments(u cloudconfig.User) []string {
	var args []string
	for _, o := range []struct{ flag, value string }{
		{"--comment", u.Gecos}, {"--home-dir", u.HomeDir}, {"--gid", u.PrimaryGroup}, {"--groups", strings.Join(u.Groups, ",")},
		{"--shell", u.Shell}, {"--uid", u.UID}, {"--inactive", u.Inactive}, {"--expiredate", u.ExpireDate},
	} {
		if o.value != "" {
			args = append(args, o.flag, o.value)
		}
	}
	if u.System {
		args = append(args, "--system")
	}
	if u.NoUserGroup {
		args = append(args, "--no-user-group")
	}
	if u.NoCreateHome || u.System {
		args = append(args, "--no-create-home")
	} else {
		args = append(args, "--create-home")
	}
	return append(args, u.Name)
}

// keepKeys records mode and owner of a file of keys, or the directory that is made for one.
func (a Applier) keepKeys(name string, progress operation.Progress) error {
	if a.exists(name) {
		return a.Keep([]string{name}, false, progress)
	}
	dir := filepath.Dir(name)
	if a.exists(dir) || slices.Contains(progress.State().Directories, dir) {
		return nil
	}
	return progress.Update(func(s *journal.State) { s.Directories = append(s.Directories, dir) })
}

// authorizeKeys adds the keys that are missing from the user's file, which root changes in the way
// that durable.WithParent describes: the user decides what is in the directory.
func (a Applier) authorizeKeys(u cloudconfig.User, progress operation.Progress) error {
	if len(u.SSHAuthorizedKeys) == 0 {
		return nil
	}
	acc, exists := lookupUser(a.Root, u.Name)
	if !exists {
		return errors.New("the account is not in /etc/passwd, so its SSH keys cannot be written")
	}
	name := filepath.Join(acc.home, ".ssh", "authorized_keys")
	// Others may add keys meanwhile: what of the content goes, the logins tell. Of an account that the
	// bootstrap made all goes, also what an attempt before this one has written.
	if !slices.Contains(progress.State().Users, u.Name) {
		if err := a.keepKeys(name, progress); err != nil {
			return err
		}
	}
	root := string(a.Root)
	if err := durable.MakeParents(root, acc.home, 0o755, 0, 0); err != nil {
		return err
	}
	if err := durable.MakeParents(root, name, 0o700, acc.uid, acc.gid); err != nil {
		return err
	}
	var old []byte
	err := durable.WithTarget(root, name, func(d *durable.Dir, file string) (err error) {
		old, _, err = d.ReadFile(file, logins.MaxKeys)
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	lines := strings.Split(strings.TrimRight(string(old), "\n"), "\n")
	for _, key := range u.SSHAuthorizedKeys {
		if !slices.Contains(lines, key) {
			lines = append(lines, key)
		}
	}
	content := strings.TrimLeft(strings.Join(lines, "\n"), "\n") + "\n"
	return durable.WithParent(root, name, func(d *durable.Dir, file string) error {
		return d.Replace(file, []byte(content), 0o600, acc.uid, acc.gid)
	})
}
