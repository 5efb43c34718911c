package cloudconfig

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/slipway-dev/slipway/internal/agent/effects/cloudconfig/jinja"
)

// Config is bootstrap data that was read and checked completely.
type Config struct {
	// BootCommands run first, RunCommands last. Each group shares one shell.
	BootCommands []string
	RunCommands  []string
	WriteFiles   []File
	Users        []User
	NTP          *NTP
	Hostname     Hostname
}

// File is one entry of write_files, with its content decoded.
type File struct {
	Path    string
	Content []byte
	Mode    fs.FileMode
	// User and Group are names or numbers; empty means root.
	User, Group string
	// Append adds to an existing file.
	Append bool
	// Defer writes the file after users were made.
	Defer bool
}

// User is one entry of users.
type User struct {
	Name              string
	Gecos             string
	HomeDir           string
	PrimaryGroup      string
	Groups            []string
	Shell             string
	UID               string
	PasswordHash      string
	LockPassword      bool
	Sudo              []string
	SSHAuthorizedKeys []string
	// Inactive is the number of days after which an expired password disables
	// the account; empty leaves the default of the system.
	Inactive     string
	ExpireDate   string
	System       bool
	NoCreateHome bool
	NoUserGroup  bool
}

// NTP configures the time client of the host.
type NTP struct {
	Enabled bool
	Servers []string
	Pools   []string
}

// Hostname is what the data says about the name of the machine.
type Hostname struct {
	Name string
	FQDN string
	// Preserve leaves the name of the machine as it is.
	Preserve bool
}

// maxRendered bounds the rendered data in bytes. A Secret holds at most 1 MiB.
const maxRendered = 4 << 20

// render carries out a jinja template the way cloud-init does.
func render(source string, meta MetaData) (string, error) {
	out, err := jinja.Render(source, meta.variables(), maxRendered)
	if wrong := (*jinja.Error)(nil); errors.As(err, &wrong) {
		place := "the jinja template of the bootstrap data"
		if wrong.Line > 0 {
			place += fmt.Sprintf(", line %d below its header, column %d", wrong.Line, wrong.Column)
		}
		return "", &Error{Reason: ReasonInvalidTemplate, Message: fmt.Sprintf("%s: %s", place, wrong.Message)}
	}
	return out, err
}
