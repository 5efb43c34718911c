package cloudconfig

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

//nolint:tagliatelle // cloud-init writes its names so.
type rawUser struct {
	Name              string          `json:"name"`
	Gecos             string          `json:"gecos"`
	HomeDir           string          `json:"homedir"`
	PrimaryGroup      string          `json:"primary_group"`
	Groups            json.RawMessage `json:"groups"`
	Shell             string          `json:"shell"`
	UID               json.RawMessage `json:"uid"`
	Passwd            string          `json:"passwd"`
	HashedPasswd      string          `json:"hashed_passwd"`
	LockPasswd        *bool           `json:"lock_passwd"`
	Sudo              json.RawMessage `json:"sudo"`
	SSHAuthorizedKeys json.RawMessage `json:"ssh_authorized_keys"`
	Inactive          json.RawMessage `json:"inactive"`
	ExpireDate        string          `json:"expiredate"`
	System            bool            `json:"system"`
	NoCreateHome      bool            `json:"no_create_home"`
	NoUserGroup       bool            `json:"no_user_group"`
}

// userName is what useradd accepts on every distribution.
var userName = regexp.MustCompile(`^[a-z_][a-z0-9_.-]{0,31}$`)

func users(m json.RawMessage) ([]User, error) {
	var items []json.RawMessage
	if err := json.Unmarshal(m, &items); err != nil {
		return nil, invalid("users in the cloud-config must be a list")
	}
	all := make([]User, 0, len(items))
	for i, item := range items {
		u, err := user(fmt.Sprintf("users[%d]", i), item)
		if err != nil {
			return nil, err
		}
		all = append(all, u)
	}
	return all, nil
}

func user(place string, m json.RawMessage) (User, error) {
	var raw rawUser
	if json.Unmarshal(m, &raw.Name) == nil {
		if raw.Name == "default" {
			return User{}, unsupported("%s in the cloud-config asks for the default user of a cloud image; name the user instead", place)
		}
	} else if err := strict(place, m, &raw); err != nil {
		return User{}, err
	}
	if !userName.MatchString(raw.Name) {
		return User{}, invalid("%s in the cloud-config needs a name of lower-case letters, digits, '_', '.' and '-'", place)
	}
	place += fmt.Sprintf(" (%s)", raw.Name)
	u := User{
		Name: raw.Name, Gecos: raw.Gecos, HomeDir: raw.HomeDir, PrimaryGroup: raw.PrimaryGroup,
		Shell: raw.Shell, PasswordHash: raw.Passwd, LockPassword: raw.LockPasswd == nil || *raw.LockPasswd,
		ExpireDate: raw.ExpireDate, System: raw.System, NoCreateHome: raw.NoCreateHome, NoUserGroup: raw.NoUserGroup,
	}
	if raw.HashedPasswd != "" {
		u.PasswordHash = raw.HashedPasswd
	}
	return u, userLists(place, raw, &u)
}

// userLists fills the fields that cloud-init accepts in several forms, and
// checks that no field can break out of its line in passwd or sudoers.
func userLists(place string, raw rawUser, u *User) error {
	var err error
	if u.Groups, err = list(raw.Groups, ","); err != nil {
		return invalid("%s in the cloud-config: groups %s", place, err)
	}
	if u.SSHAuthorizedKeys, err = list(raw.SSHAuthorizedKeys, ""); err != nil {
		return invalid("%s in the cloud-config: ssh_authorized_keys %s", place, err)
	}
	if string(raw.Sudo) != "false" {
		if u.Sudo, err = list(raw.Sudo, ""); err != nil {
			return invalid("%s in the cloud-config: sudo %s", place, err)
		}
	}
	if u.UID, err = optional(raw.UID); err != nil {
		return invalid("%s in the cloud-config: uid %s", place, err)
	}
	if u.Inactive, err = inactive(raw.Inactive); err != nil {
		return invalid("%s in the cloud-config: inactive %s", place, err)
	}
	single := append([]string{u.Gecos, u.HomeDir, u.PrimaryGroup, u.Shell, u.PasswordHash, u.ExpireDate, u.UID, u.Inactive}, u.Groups...)
	single = append(append(single, u.Sudo...), u.SSHAuthorizedKeys...)
	for _, s := range single {
		if strings.ContainsAny(s, "\n\r\x00") || strings.HasPrefix(s, "-") {
			return invalid("%s in the cloud-config has a value with a line break or a leading '-'", place)
		}
	}
	return nil
}

// list takes a list of strings, or one string that sep divides.
func list(m json.RawMessage, sep string) ([]string, error) {
	if len(m) == 0 || isNull(m) {
		return nil, nil
	}
	var one string
	if json.Unmarshal(m, &one) == nil {
		parts := []string{one}
		if sep != "" {
			parts = strings.Split(one, sep)
		}
		return trimmed(parts), nil
	}
	var many []string
	if err := json.Unmarshal(m, &many); err != nil {
		return nil, fmt.Errorf("must be a string or a list of strings")
	}
	return trimmed(many), nil
}

func trimmed(in []string) []string {
	out := in[:0]
	for _, s := range in {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	return out
}

func optional(m json.RawMessage) (string, error) {
	if len(m) == 0 || isNull(m) {
		return "", nil
	}
	return text(m)
}

// inactive takes a number of days, or the boolean that Cluster API writes: true
// disables the account as soon as its password expires.
func inactive(m json.RawMessage) (string, error) {
	s, err := optional(m)
	switch s {
	case "true":
		return "0", err
	case "false":
		return "", err
	}
	return s, err
}

type rawNTP struct {
	Enabled *bool    `json:"enabled"`
	Servers []string `json:"servers"`
	Pools   []string `json:"pools"`
}

func ntp(m json.RawMessage) (*NTP, error) {
	var raw rawNTP
	if err := strict("ntp", m, &raw); err != nil {
		return nil, err
	}
	for _, name := range append(append([]string{}, raw.Servers...), raw.Pools...) {
		if name == "" || strings.ContainsAny(name, " \t\r\n\x00#") {
			return nil, invalid("ntp in the cloud-config needs host names or addresses as servers and pools")
		}
	}
	return &NTP{Enabled: raw.Enabled == nil || *raw.Enabled, Servers: raw.Servers, Pools: raw.Pools}, nil
}
