package logins

import (
	"slices"
	"strings"

	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
)

// Changes tells what the bootstrap of the journal changed: what it has on record, or what
// differs between its baseline and the host now. A journal of an agent that kept no
// baseline of logins names the accounts only.
func Changes(root hostfs.Root, s journal.State) (journal.LoginChanges, error) {
	if s.LoginChanges != nil {
		return *s.LoginChanges, nil
	}
	made := journal.LoginChanges{Created: slices.Clone(s.Users), Groups: slices.Clone(s.Groups)}
	if s.Baseline == nil || s.Baseline.Logins == nil {
		return made, nil
	}
	now, err := Read(root)
	if err != nil {
		return made, err
	}
	compare(*s.Baseline.Logins, *now, &made)
	made.Taken = taken(*s.Baseline.Logins, *now)
	return made, nil
}

// compare adds what now has and before had not. An account of a service that nobody can log in to is
// no login, and its group none: packages that a bootstrap installs make some.
func compare(before, now journal.Logins, made *journal.LoginChanges) {
	for _, name := range sorted(now.Accounts) {
		was, existed := before.Accounts[name]
		switch is := now.Accounts[name]; {
		case is == "" && (existed || !ofPerson(now.Numbers[name])) || existed && is == was:
		case existed:
			set(&made.Changed, name, is)
		case !slices.Contains(made.Created, name):
			made.Created = append(made.Created, name)
		}
	}
	compareGroups(before, now, made)
	for _, path := range sorted(now.Keys) {
		if added := without(now.Keys[path], before.Keys[path]); len(added) > 0 {
			set(&made.Keys, path, added)
		}
	}
	for _, group := range sorted(now.Members) {
		added := slices.DeleteFunc(without(now.Members[group], before.Members[group]), func(name string) bool {
			_, existed := before.Accounts[name]
			return !existed || now.Accounts[name] == "" && !ofPerson(now.Numbers[name])
		})
		if len(added) > 0 {
			set(&made.Members, group, added)
		}
	}
	for _, path := range sorted(now.Sudoers) {
		was, existed := before.Sudoers[path]
		switch is := now.Sudoers[path]; {
		case !existed:
			made.Sudoers = append(made.Sudoers, path)
		case !sameRules(was, is):
			set(&made.Edited, path, is)
		}
	}
}

func compareGroups(before, now journal.Logins, made *journal.LoginChanges) {
	if !knowsGroups(before) {
		return
	}
	for _, name := range sorted(now.Numbers) {
		group, is := strings.CutPrefix(name, ofGroup)
		if _, existed := before.Numbers[name]; is && !existed && ofPerson(now.Numbers[name]) && !slices.Contains(made.Groups, group) {
			made.Groups = append(made.Groups, group)
		}
	}
}

// knowsGroups says whether a snapshot has the numbers of groups, which agents of before did not record.
func knowsGroups(l journal.Logins) bool {
	return slices.ContainsFunc(sorted(l.Numbers), func(name string) bool { return strings.HasPrefix(name, ofGroup) })
}

// taken returns what before has and now has not; nil for nothing.
func taken(before, now journal.Logins) *journal.Logins {
	t, some := &journal.Logins{}, false
	for _, name := range sorted(before.Accounts) {
		if is, there := now.Accounts[name]; !there || is == "" && before.Accounts[name] != "" {
			set(&t.Accounts, name, before.Accounts[name])
			some = true
		} else if was, known := before.Numbers[name]; known && was != now.Numbers[name] && is == before.Accounts[name] {
			set(&t.Numbers, name, was)
			some = true
		}
	}
	for _, name := range sorted(before.Numbers) {
		if strings.HasPrefix(name, ofGroup) && now.Numbers[name] != before.Numbers[name] {
			set(&t.Numbers, name, before.Numbers[name])
			some = true
		}
	}
	for _, path := range sorted(before.Keys) {
		if gone := without(before.Keys[path], now.Keys[path]); len(gone) > 0 {
			set(&t.Keys, path, gone)
			some = true
		}
	}
	for _, group := range sorted(before.Members) {
		if gone := without(before.Members[group], now.Members[group]); len(gone) > 0 {
			set(&t.Members, group, gone)
			some = true
		}
	}
	for _, path := range sorted(before.Sudoers) {
		if _, there := now.Sudoers[path]; !there {
			set(&t.Sudoers, path, before.Sudoers[path])
			some = true
		}
	}
	if !some {
		return nil
	}
	return t
}

// leftTaken says what of it is still not there.
func leftTaken(t, now journal.Logins) (left []string) {
	for _, name := range sorted(t.Accounts) {
		if is, there := now.Accounts[name]; !there {
			left = append(left, "account "+name+", which was there before, is gone")
		} else if is == "" && t.Accounts[name] != "" {
			left = append(left, "account "+name+", to which one could log in before, is locked")
		}
	}
	for _, name := range sorted(t.Numbers) {
		is, there := now.Numbers[name]
		if group, ok := strings.CutPrefix(name, ofGroup); ok {
			if is != t.Numbers[name] {
				left = append(left, "group "+group+", which was there before with number "+t.Numbers[name]+", is gone or has another one")
			}
		} else if there && is != t.Numbers[name] {
			left = append(left, "changed user ID, group, home or shell of account "+name)
		}
	}
	for _, path := range sorted(t.Keys) {
		if len(without(t.Keys[path], now.Keys[path])) > 0 {
			left = append(left, "SSH keys that were in "+path+" before are gone")
		}
	}
	for _, group := range sorted(t.Members) {
		for _, name := range without(t.Members[group], now.Members[group]) {
			left = append(left, "account "+name+", which was in group "+group+" before, is not")
		}
	}
	for _, path := range sorted(t.Sudoers) {
		if _, there := now.Sudoers[path]; !there {
			left = append(left, "sudo rules in "+path+", which were there before, are gone")
		}
	}
	return left
}

// without returns the elements of all that are not in known.
func without(all, known []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(known, s) })
}

func set[V any](m *map[string]V, key string, value V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[key] = value
}

// Left says, in words for a message, what of the changes is still there. A password or a
// file that somebody has changed again since is theirs.
func Left(root hostfs.Root, made journal.LoginChanges) ([]string, error) {
	now, err := Read(root)
	if err != nil {
		return nil, err
	}
	var left []string
	for _, name := range made.Created {
		if _, there := now.Accounts[name]; there {
			left = append(left, "account "+name)
		}
	}
	for _, name := range made.Groups {
		if _, there := now.Numbers[ofGroup+name]; there {
			left = append(left, "group "+name)
		}
	}
	for _, path := range sorted(made.Keys) {
		if slices.ContainsFunc(now.Keys[path], func(d string) bool { return slices.Contains(made.Keys[path], d) }) {
			left = append(left, "SSH keys in "+path)
		}
	}
	for _, group := range sorted(made.Members) {
		for _, name := range made.Members[group] {
			if slices.Contains(now.Members[group], name) {
				left = append(left, "account "+name+" in group "+group)
			}
		}
	}
	for _, path := range made.Sudoers {
		if _, there := now.Sudoers[path]; there {
			left = append(left, "sudo rules in "+path)
		}
	}
	for _, path := range sorted(made.Edited) {
		if sameRules(made.Edited[path], now.Sudoers[path]) {
			left = append(left, "changed sudo rules in "+path)
		}
	}
	for _, name := range sorted(made.Changed) {
		if now.Accounts[name] == made.Changed[name] {
			left = append(left, "changed password, shell or user ID of account "+name)
		}
	}
	if made.Taken != nil {
		left = append(left, leftTaken(*made.Taken, *now)...)
	}
	return left, nil
}
