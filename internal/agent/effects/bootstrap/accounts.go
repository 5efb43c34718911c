package bootstrap

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
)

const (
	passwdFile = "/etc/passwd"
	groupFile  = "/etc/group"
)

// account is a line of /etc/passwd.
type account struct {
	uid, gid int
	home     string
}

func lookupUser(root hostfs.Root, name string) (account, bool) {
	fields, ok := entry(root, passwdFile, name, 6)
	if !ok {
		return account{}, false
	}
	uid, errUID := strconv.Atoi(fields[2])
	gid, errGID := strconv.Atoi(fields[3])
	return account{uid: uid, gid: gid, home: fields[5]}, errUID == nil && errGID == nil
}

func lookupGroup(root hostfs.Root, name string) (int, bool) {
	fields, ok := entry(root, groupFile, name, 3)
	if !ok {
		return 0, false
	}
	gid, err := strconv.Atoi(fields[2])
	return gid, err == nil
}

// entry returns the fields of a line that begins with the name.
func entry(root hostfs.Root, path, name string, count int) ([]string, bool) {
	data, err := root.ReadFile(path)
	if err != nil {
		return nil, false
	}
	for line := range strings.Lines(string(data)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), ":")
		if fields[0] == name && len(fields) >= count {
			return fields, true
		}
	}
	return nil, false
}

// owner resolves names or numbers; empty means root, as in cloud-init.
func owner(root hostfs.Root, user, group string) (uid, gid int, err error) {
	if user != "" && user != "root" {
		a, ok := lookupUser(root, user)
		if uid = a.uid; !ok {
			if uid, err = strconv.Atoi(user); err != nil || uid < 0 {
				return 0, 0, fmt.Errorf("the owner %q is no user of this host; create it in users and set defer: true on the file", user)
			}
		}
	}
	if group != "" && group != "root" {
		id, ok := lookupGroup(root, group)
		if gid = id; !ok {
			if gid, err = strconv.Atoi(group); err != nil || gid < 0 {
				return 0, 0, fmt.Errorf("the group %q does not exist on this host; create it first and set defer: true on the file", group)
			}
		}
	}
	return uid, gid, nil
}
