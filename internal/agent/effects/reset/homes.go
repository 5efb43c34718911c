package reset

import (
	"bytes"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/slipway-dev/slipway/internal/agent/effects/logins"
	"github.com/slipway-dev/slipway/internal/durable"
)

// kubectlHome is where kubectl has its configuration and caches, below a home directory.
const kubectlHome = ".kube"

// ofLogins are, below a home directory, what a login runs, whom it lets in besides the keys, and what it may use.
var ofLogins = append([]string{
	".profile", ".bashrc", ".bash_profile", kubectlHome, ".docker", ".config/systemd", ".ssh", ".bash_login", ".bash_logout", ".zshrc", ".zshenv", ".zprofile", ".zlogin",
	".pam_environment", ".rhosts", ".shosts", ".k5login", ".forward",
}, moreOfLogins...)

// moreOfLogins are those that records have since version 5: distributions' own files read them, or look there for programs first.
var moreOfLogins = []string{".bash_aliases", ".bashrc.d", ".local/bin", "bin", ".config/environment.d", ".config/fish", ".local/share/systemd"}

// unrecordedOfLogins are those that are not looked at: keys are compared key by key, see the package logins, ssh adds to the
// hosts that it knows, and kubectl reads again what it has cached.
var unrecordedOfLogins = []string{".ssh/authorized_keys*", ".ssh/known_hosts*", ".kube/cache", ".kube/http-cache"}

// inLogin returns the path of a file below a home directory, root's or that of a homePlace, if it is among ofLogins.
func inLogin(name string) (string, bool) {
	if !hidden(name) {
		return "", false
	}
	p, ok := placeOf(name)
	switch {
	case ok && p.home != "":
		return strings.TrimPrefix(name, p.home+"/"), true
	case strings.HasPrefix(name, "/root/"):
		return strings.TrimPrefix(name, "/root/"), true
	}
	return "", false
}

// hidden says whether a name of the path begins with a dot, as those of ofLogins but one do, and few others.
func hidden(name string) bool { return strings.Contains(name, "/.") || strings.Contains(name, "/bin") }

// homePlaces are those in home directories of users.
func homePlaces(homes []string) (all []place) {
	for _, home := range homes {
		for _, name := range ofLogins {
			if p, ok := placeOf(path.Join(home, name)); ok && p.path == path.Join(home, name) && p.home == home {
				all = append(all, p)
			}
		}
	}
	return all
}

// homePlaceOf is the place of a path that could be in somebody's home directory: the outermost that has a name of ofLogins.
func homePlaceOf(name string) (found place, ok bool) {
	if !hidden(name) {
		return place{}, false
	}
	for dir := name; dir != "/" && dir != "."; dir = path.Dir(dir) {
		for _, of := range ofLogins {
			if home, is := strings.CutSuffix(dir, "/"+of); is && home != "" {
				found, ok = place{path: dir, home: home, since: 4}, true
				if slices.Contains(moreOfLogins, of) {
					found.since = 5
				}
			}
		}
	}
	return found, ok
}

// sharedFileSystems are those of other machines, or mounted when somebody reads them: a home there is no state of this host, and reading
// it may never end.
var sharedFileSystems = []string{"autofs", "nfs", "nfs4", "cifs", "smb3", "ceph", "9p", "afs", "lustre", "beegfs", "glusterfs"}

// homes are the directories of the accounts that may log in, without symbolic links: those on disks of the host.
func (c Cleaner) homes() ([]string, error) {
	named, err := logins.Homes(c.Root)
	if err != nil {
		return nil, err
	}
	mounted, err := c.mounts()
	if err != nil {
		return nil, err
	}
	var homes []string
	for _, home := range named {
		if slices.Contains(sharedFileSystems, fileSystemOf(home, mounted)) {
			continue
		}
		at, top, err := c.resolve(home)
		if err != nil {
			return nil, err
		}
		at = "/" + strings.Trim(strings.TrimPrefix(at, top), "/")
		if at != "/" && !slices.Contains(sharedFileSystems, fileSystemOf(at, mounted)) && !slices.Contains(homes, at) {
			homes = append(homes, at)
		}
	}
	slices.Sort(homes)
	return homes, nil
}

// homesOf are those of a record, or of now where there is none.
func (c Cleaner) homesOf(rec *record) ([]string, error) {
	if rec != nil {
		return rec.Homes, nil
	}
	return c.homes()
}

// fileSystemOf is the type of what is mounted at a path, or above it.
func fileSystemOf(at string, mounted entries) string {
	best, is := "", ""
	for name, what := range mounted {
		point := mountPoint(name)
		if (at == point || strings.HasPrefix(at, strings.TrimSuffix(point, "/")+"/")) && len(point) >= len(best) {
			best = point
			is, _, _ = strings.Cut(what, " ")
		}
	}
	if strings.HasPrefix(is, "fuse") {
		return sharedFileSystems[0]
	}
	return is
}

// credentials are the files that kubeadm makes and whose copies people make for kubectl, as it tells them to.
var credentials = []string{"/etc/kubernetes/admin.conf", "/etc/kubernetes/super-admin.conf", "/etc/kubernetes/kubelet.conf", "/etc/kubernetes/controller-manager.conf", "/etc/kubernetes/scheduler.conf"}

// maxCredential bounds a file for kubectl, in bytes.
const maxCredential = 1 << 20

// removeCopies removes copies of a node's credentials from the directories of kubectl, whoever made them, with what kubectl cached by them.
// It comes before kubeadm removes the credentials. A file that is not such a copy is the operator's: it is compared as others are.
func (c Cleaner) removeCopies(rec *record) error {
	var known [][]byte
	for _, name := range credentials {
		if data, err := c.Root.ReadFile(name); err == nil && len(data) > 0 {
			known = append(known, data)
		}
	}
	if len(known) == 0 {
		return nil
	}
	homes, err := c.homes()
	errs := []error{err}
	before := rec.of(trace{kind: kindFile})
	for _, home := range homes {
		dir := path.Join(home, kubectlHome)
		removed := false
		err := c.withDir(dir, func(d *durable.Dir) (err error) {
			removed, err = removeCopiesIn(d, known, func(name string) bool { return before[path.Join(dir, name)] == "" })
			return err
		})
		if !errors.As(err, new(*durable.LinkError)) { // what a user's link leads to is compared, and not touched
			errs = append(errs, err)
		}
		if removed && before != nil && before[dir] == "" {
			_ = durable.RemoveIn(string(c.Root), dir) // unless there is more in it
		}
	}
	return errors.Join(errs...)
}

func removeCopiesIn(d *durable.Dir, known [][]byte, came func(name string) bool) (removed bool, _ error) {
	found, err := d.Entries()
	errs := []error{err}
	for _, e := range found {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || info.Size() > maxCredential || !came(e.Name()) {
			continue
		}
		data, _, err := d.ReadFile(e.Name(), maxCredential)
		if err == nil && slices.ContainsFunc(known, func(k []byte) bool { return bytes.Equal(k, data) }) {
			removed, err = true, d.RemoveAll(e.Name())
		}
		errs = append(errs, err)
	}
	for _, cache := range []string{"cache", "http-cache"} {
		if _, err := d.Lstat(cache); removed && err == nil {
			errs = append(errs, d.RemoveAll(cache))
		}
	}
	return removed, errors.Join(errs...)
}
