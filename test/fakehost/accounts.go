package fakehost

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// accounts does what the shadow utilities do to their files. Accounts get the IDs of root:
// the tests chown nothing else.
func (p *Programs) accounts(name, last string, args []string, input []byte) (done bool, _ error) {
	switch name {
	case "useradd":
		home := "/home/" + last
		if i := slices.Index(args, "--home-dir"); i >= 0 {
			home = args[i+1]
		}
		return true, p.edit("/etc/passwd", func(lines []string) []string { return append(lines, fmt.Sprintf("%s:x:0:0::%s:/bin/sh", last, home)) })
	case "userdel":
		return true, errors.Join(
			p.edit("/etc/passwd", without(last)), p.edit("/etc/shadow", without(last)),
			os.RemoveAll(p.root.Path("/home/"+last)))
	case "groupadd":
		return true, p.edit("/etc/group", func(lines []string) []string { return append(lines, last+":x:0:") })
	case "groupdel":
		return true, p.edit("/etc/group", without(last))
	case "gpasswd":
		return true, p.edit("/etc/group", func(lines []string) []string {
			for i, line := range lines {
				if f := strings.Split(line, ":"); f[0] == last {
					members := slices.DeleteFunc(strings.Split(f[3], ","), func(m string) bool { return m == args[1] })
					lines[i] = strings.Join(append(f[:3], strings.Join(members, ",")), ":")
				}
			}
			return lines
		})
	case "chpasswd":
		user, hash, _ := strings.Cut(strings.TrimSpace(string(input)), ":")
		return true, p.edit("/etc/shadow", func(lines []string) []string { return append(without(user)(lines), user+":"+hash+":0::::::") })
	case "usermod":
		return true, p.edit("/etc/shadow", func(lines []string) []string {
			for i, line := range lines {
				if strings.HasPrefix(line, last+":") {
					lines[i] = last + ":!" + strings.TrimPrefix(line, last+":")
				}
			}
			return lines
		})
	}
	return false, nil
}

func without(name string) func([]string) []string {
	return func(lines []string) []string {
		return slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, name+":") })
	}
}

// edit changes the lines of a file; one that is not there has none.
func (p *Programs) edit(path string, change func([]string) []string) error {
	data, err := os.ReadFile(p.root.Path(path))
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	lines := change(slices.DeleteFunc(strings.Split(string(data), "\n"), func(l string) bool { return l == "" }))
	return os.WriteFile(p.root.Path(path), []byte(strings.Join(lines, "\n")+"\n"), 0o600)
}
