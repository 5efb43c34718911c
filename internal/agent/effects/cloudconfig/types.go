package cloudconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"

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

// MetaData is what a jinja template can refer to. As in cloud-init it is
// reached as ds.meta_data.<key>, the standard keys local_hostname and instance_id
// also as v1.<key> and by their name alone. Those two have their names with a dash as well, as
// v1['local-hostname'].
type MetaData struct {
	// LocalHostname is the host name of the machine.
	LocalHostname string
	// InstanceID is the ID of the claim.
	InstanceID string
	// ProviderID is the provider ID the Node will carry.
	ProviderID string
	// LocalIPv4 is the address of the host; empty leaves the variable undefined.
	LocalIPv4 string
	// DefaultInterface is the network interface of the default route; empty leaves the
	// variable undefined.
	DefaultInterface string
}

func (m MetaData) variables() map[string]any {
	standard := map[string]any{"local_hostname": m.LocalHostname, "local-hostname": m.LocalHostname, "instance_id": m.InstanceID, "instance-id": m.InstanceID}
	data := maps.Clone(standard)
	data["hostname"] = m.LocalHostname
	data["provider_id"] = m.ProviderID
	if m.LocalIPv4 != "" {
		data["local_ipv4"] = m.LocalIPv4
	}
	if m.DefaultInterface != "" {
		data["default_interface"] = m.DefaultInterface
	}
	variables := maps.Clone(standard)
	variables["ds"] = map[string]any{"meta_data": data}
	variables["v1"] = standard
	return variables
}

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
