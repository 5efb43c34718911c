package logins

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
	"github.com/slipway-dev/slipway/internal/durable"
)

const (
	passwdFile = "/etc/passwd"
	shadowFile = "/etc/shadow"
	groupFile  = "/etc/group"
	sudoers    = "/etc/sudoers"
	sudoersDir = "/etc/sudoers.d"
)

// keyFiles are where sshd looks for keys by default, below the home directory.
var keyFiles = []string{".ssh/authorized_keys", ".ssh/authorized_keys2"}

// noLogin are the shells of accounts that nobody logs in to.
var noLogin = []string{"nologin", "false", "sync", "shutdown", "halt"}

// account is a line of passwd with its password field from shadow.
type account struct {
	name, password, uid, gid, home, shell string
}

// mayLogIn is false for the accounts of services: they have no shell, or neither a
// password nor a key. What has user ID 0 always may.
func (a account) mayLogIn(keys map[string][]string) bool {
	if a.uid == "0" {
		return true
	}
	locked := strings.HasPrefix(a.password, "!") || strings.HasPrefix(a.password, "*") || a.password == "x"
	hasKeys := slices.ContainsFunc(keyFiles, func(f string) bool { return len(keys[filepath.Join(a.home, f)]) > 0 })
	return !slices.Contains(noLogin, filepath.Base(a.shell)) && (!locked || hasKeys)
}

func (a account) digest() string {
	return digest([]byte(strings.Join([]string{a.name, a.password, a.uid, a.gid, a.home, a.shell}, ":")))
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}

// ofGroup begins the name of a group among numbers, as sudo has it.
const ofGroup = "%"

// ofPerson says of the numbers of an account, or of a group, whether it is of a person and not of a service: the system's own programs and
// packages give those lower numbers. Somebody may become such an account without a password of its own.
func ofPerson(numbers string) bool {
	first, rest, account := strings.Cut(numbers, ":")
	number, err := strconv.Atoi(first)
	return err == nil && number >= 1000 && number < 1<<16-2 && (!account || !slices.Contains(noLogin, path.Base(rest)))
}

// Read takes a snapshot of the host.
func Read(root hostfs.Root) (*journal.Logins, error) {
	accounts, err := readAccounts(root)
	if err != nil {
		return nil, err
	}
	l := &journal.Logins{Accounts: map[string]string{}, Members: map[string][]string{}, Sudoers: map[string]string{}, Numbers: map[string]string{}}
	if l.Keys, err = readKeys(root, accounts); err != nil {
		return nil, err
	}
	for _, a := range accounts {
		l.Accounts[a.name] = ""
		l.Numbers[a.name] = strings.Join([]string{a.uid, a.gid, a.home, a.shell}, ":")
		if a.mayLogIn(l.Keys) {
			l.Accounts[a.name] = a.digest()
		}
	}
	groups, err := lines(root, groupFile, 4)
	if err != nil {
		return nil, err
	}
	for _, f := range groups {
		l.Numbers[ofGroup+f[0]] = f[2]
		if f[3] != "" {
			l.Members[f[0]] = strings.Split(f[3], ",")
		}
	}
	l.Sudoers, err = readSudoers(root)
	return l, err
}

// Homes are the home directories of the accounts that may log in.
func Homes(root hostfs.Root) ([]string, error) {
	accounts, err := readAccounts(root)
	if err != nil {
		return nil, err
	}
	keys, err := readKeys(root, accounts)
	var homes []string
	for _, a := range accounts {
		if home := filepath.Clean(a.home); a.mayLogIn(keys) && filepath.IsAbs(home) && !slices.Contains(homes, home) {
			homes = append(homes, home)
		}
	}
	return homes, err
}

// readKeys has the digests of the keys in each file of the accounts that has some.
func readKeys(root hostfs.Root, accounts []account) (map[string][]string, error) {
	keys := map[string][]string{}
	for _, a := range accounts {
		for _, name := range keyFiles {
			path := filepath.Join(a.home, name)
			lines, err := keyLines(root, path)
			if err != nil {
				return nil, err
			}
			for _, line := range lines {
				if d := digest([]byte(line)); !slices.Contains(keys[path], d) {
					keys[path] = append(keys[path], d)
				}
			}
		}
	}
	return keys, nil
}

func readAccounts(root hostfs.Root) ([]account, error) {
	passwords := map[string]string{}
	shadow, err := lines(root, shadowFile, 2)
	if err != nil {
		return nil, err
	}
	for _, fields := range shadow {
		passwords[fields[0]] = fields[1]
	}
	passwd, err := lines(root, passwdFile, 7)
	if err != nil {
		return nil, err
	}
	all := make([]account, 0, len(passwd))
	for _, f := range passwd {
		a := account{name: f[0], password: f[1], uid: f[2], gid: f[3], home: f[5], shell: f[6]}
		if p, ok := passwords[a.name]; ok {
			a.password = p
		}
		all = append(all, a)
	}
	return all, nil
}

// Password returns the password field of an account, and whether it has one.
func Password(root hostfs.Root, name string) (string, bool, error) {
	accounts, err := readAccounts(root)
	for _, a := range accounts {
		if a.name == name && a.password != "x" {
			return a.password, true, nil
		}
	}
	return "", false, err
}

func readSudoers(root hostfs.Root) (map[string]string, error) {
	paths := []string{sudoers}
	entries, err := os.ReadDir(root.Path(sudoersDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		paths = append(paths, filepath.Join(sudoersDir, e.Name()))
	}
	digests := map[string]string{}
	for _, path := range paths {
		is, err := rulesIn(root, path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		digests[path] = is
	}
	return digests, nil
}

// rulesIn describes what may be a file of sudo's rules: digest, mode and owner. sudo reads nothing but files; what else
// has the name, such as a link to a file that comes later, is there all the same.
func rulesIn(root hostfs.Root, path string) (string, error) {
	if _, err := os.Lstat(root.Path(path)); err != nil {
		return "", err
	}
	info, err := os.Stat(root.Path(path))
	if err != nil || !info.Mode().IsRegular() {
		return "no file", nil //nolint:nilerr // a link that leads nowhere
	}
	data, err := root.ReadFile(path)
	if err != nil {
		return "", err
	}
	is := digest(data)
	if owner, ok := info.Sys().(*syscall.Stat_t); ok {
		is += fmt.Sprintf(" %o %d:%d", owner.Mode, owner.Uid, owner.Gid)
	}
	return is, nil
}

// sameRules compares two of them; before may be of an agent that had the digest alone.
func sameRules(before, now string) bool {
	return before == now || strings.HasPrefix(now, before+" ") && !strings.Contains(before, " ")
}

// MaxKeys bounds a file of SSH keys, in bytes: its user may have made it as large as they like.
const MaxKeys = 1 << 20

// keyLines are the lines of a file that may hold keys. sshd follows links there, and reads no keys from a
// pipe or a device.
func keyLines(root hostfs.Root, path string) ([]string, error) {
	data, err := durable.ReadAny(string(root), path, MaxKeys)
	// A home directory such as /dev/null has nothing below it.
	if _, stat := os.Stat(root.Path(path)); stat != nil || errors.As(err, new(*durable.IrregularError)) {
		return nil, nil //nolint:nilerr // sshd cannot read it either
	}
	if err != nil {
		return nil, fmt.Errorf("read the SSH keys: %w", err)
	}
	var found []string
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			found = append(found, line)
		}
	}
	return found, nil
}

// lines returns the fields of each line of a file of accounts; none of a file that is
// not there.
func lines(root hostfs.Root, path string, least int) ([][]string, error) {
	data, err := root.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all [][]string
	for line := range strings.Lines(string(data)) {
		if fields := strings.Split(strings.TrimSpace(line), ":"); len(fields) >= least {
			all = append(all, fields)
		}
	}
	return all, nil
}

// sorted returns the keys of a map in their order.
func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
