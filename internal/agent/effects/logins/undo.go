package logins

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/hostos/command"
	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
	"github.com/slipway-dev/slipway/internal/durable"
)

// Exit codes of the shadow utilities.
const (
	exitNoSuch = 6 // the account or group does not exist
	exitInUse  = 8 // a process of the account runs
)

// A process that was killed takes a moment to end.
const (
	inUseTries = 10
	inUsePause = 200 * time.Millisecond
)

// lingering are the files by which an account has programs run, and that outlive it.
var lingering = []string{"/var/spool/cron/crontabs/%s", "/var/spool/cron/%s", "/var/lib/systemd/linger/%s"}

// Undo takes the changes back and may be repeated. passwords are the password fields of
// accounts that were there before. What cannot be undone stays, and Left names it.
func Undo(ctx context.Context, root hostfs.Root, runner command.Runner, made journal.LoginChanges, passwords map[string]string) error {
	now, err := Read(root)
	if err != nil {
		return err
	}
	shared, err := sharedIDs(root)
	if err != nil {
		return err
	}
	var errs []error
	// First of all: keys in the home of an account that cannot be removed let nobody in.
	for _, path := range sorted(made.Keys) {
		errs = append(errs, removeKeys(root, path, made.Keys[path]))
	}
	for _, name := range sorted(passwords) {
		if _, there := now.Accounts[name]; there {
			// On standard input: arguments can be read by every process.
			_, err := runner.RunInput(ctx, []byte(name+":"+passwords[name]+"\n"), "chpasswd", "-e")
			errs = append(errs, err)
		}
	}
	for _, group := range sorted(made.Members) {
		for _, name := range made.Members[group] {
			if slices.Contains(now.Members[group], name) {
				_, err := runner.Run(ctx, "gpasswd", "--delete", name, group)
				errs = append(errs, err)
			}
		}
	}
	for _, path := range made.Sudoers {
		errs = append(errs, durable.RemoveIn(string(root), path))
	}
	for _, name := range made.Created {
		if _, there := now.Accounts[name]; there {
			for _, pattern := range lingering {
				errs = append(errs, durable.RemoveIn(string(root), fmt.Sprintf(pattern, name)))
			}
			errs = append(errs, removeAccount(ctx, runner, name, shared[name]))
		}
	}
	for _, group := range made.Groups {
		_, err := runner.Run(ctx, "groupdel", group)
		errs = append(errs, ignoreExit(err, exitNoSuch))
	}
	return errors.Join(errs...)
}

// sharedIDs are the accounts whose user ID another account has, too.
func sharedIDs(root hostfs.Root) (map[string]bool, error) {
	accounts, err := readAccounts(root)
	byID := map[string][]string{}
	for _, a := range accounts {
		byID[a.uid] = append(byID[a.uid], a.name)
	}
	shared := map[string]bool{}
	for _, names := range byID {
		for _, name := range names {
			shared[name] = len(names) > 1
		}
	}
	return shared, err
}

// removeAccount ends the programs of the account first. userdel removes the home
// directory only if it belongs to the account. Programs and files belong to a user ID: those of one that
// another account has, as a second root, are left, and userdel must not look for them either.
func removeAccount(ctx context.Context, runner command.Runner, name string, shared bool) error {
	args := []string{"--remove", name}
	if shared {
		args = []string{"--force", name}
	} else if runner.Has("pkill") {
		// It fails when there is no process, which is what is wanted.
		_, _ = runner.Run(ctx, "pkill", "-KILL", "-u", name)
	}
	for try := 1; ; try++ {
		_, err := runner.Run(ctx, "userdel", args...)
		if exit := (*command.ExitError)(nil); !errors.As(err, &exit) || exit.Code != exitInUse || try == inUseTries {
			return ignoreExit(err, exitNoSuch)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(inUsePause):
		}
	}
}

func ignoreExit(err error, code int) error {
	if exit := (*command.ExitError)(nil); errors.As(err, &exit) && exit.Code == code {
		return nil
	}
	return err
}

// removeKeys takes the lines with these digests out of the file, and the file when nothing
// is left. A file that is a link is not touched: it could be anything.
func removeKeys(root hostfs.Root, path string, digests []string) error {
	err := durable.WithParent(string(root), path, func(d *durable.Dir, file string) error {
		old, info, err := d.ReadFile(file, MaxKeys)
		if errors.As(err, new(*durable.IrregularError)) {
			lines, err := keyLines(root, path)
			if err != nil || !slices.ContainsFunc(lines, func(line string) bool { return slices.Contains(digests, digest([]byte(line))) }) {
				return err
			}
			return fmt.Errorf("%s is no regular file; remove the SSH keys of the bootstrap from it by hand", path)
		}
		if err != nil {
			return err
		}
		var kept strings.Builder
		for line := range strings.Lines(string(old)) {
			if !slices.Contains(digests, digest([]byte(strings.TrimSpace(line)))) {
				kept.WriteString(line)
			}
		}
		switch {
		case kept.Len() == len(old):
			return nil
		case strings.TrimSpace(kept.String()) == "":
			return d.Remove(file)
		}
		uid, gid := durable.Keep, durable.Keep
		if owner, ok := info.Sys().(*syscall.Stat_t); ok {
			uid, gid = int(owner.Uid), int(owner.Gid)
		}
		return d.Replace(file, []byte(kept.String()), info.Mode().Perm(), uid, gid)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
