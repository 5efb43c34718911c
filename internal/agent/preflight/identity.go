package preflight

import (
	"context"
	"path/filepath"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/slipway-dev/slipway/internal/agent/run/config"
)

func checkHostName(_ context.Context, s *scope) []Finding {
	name, err := s.Hostname()
	if err != nil {
		return bad(Error, "sudo hostnamectl set-hostname NAME", "the host name could not be read: %v", err)
	}
	host := s.config.HostName
	if host == "" {
		host = name
	}
	const remedy = "sudo hostnamectl set-hostname NAME, or set hostName in " + config.DefaultPath
	switch label, _, _ := strings.Cut(name, "."); {
	case label == "localhost" || label == "":
		return bad(Error, "sudo hostnamectl set-hostname NAME", "the host is called %q: Nodes are named by the host name, which must be its own", name)
	case len(validation.IsDNS1123Subdomain(strings.ToLower(name))) > 0 || len(name) > validation.DNS1123LabelMaxLength:
		return bad(Error, "sudo hostnamectl set-hostname NAME", "the host is called %q, which cannot be the name of a Node: want labels of DNS, at most %d characters", name, validation.DNS1123LabelMaxLength)
	case config.ValidateHostName(host) != nil:
		return bad(Error, remedy, "the name %q cannot be the name of a Host or a Node: want a lower-case DNS name of at most 63 characters", host)
	}
	return good("%s", host)
}

var validMachineID = regexp.MustCompile(`^[0-9a-f]{32}$`)

// defaultUUIDs are values of DMI that firmware leaves in place on every machine.
var defaultUUIDs = []string{
	"00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff", "03000200-0400-0500-0006-000700080009",
}

// checkMachineID looks for what disks that were cloned have in common.
func checkMachineID(_ context.Context, s *scope) []Finding {
	const (
		renewID = "sudo rm -f /etc/machine-id /var/lib/dbus/machine-id && sudo systemd-machine-id-setup"
		renew   = renewID + " && sudo reboot"
	)
	id := s.text("/etc/machine-id")
	if !validMachineID.MatchString(id) || strings.Trim(id, "0") == "" {
		return bad(Error, renew, "/etc/machine-id holds %q, not an ID of 32 hexadecimal digits", id)
	}
	if dbus := s.text("/var/lib/dbus/machine-id"); dbus != "" && dbus != id {
		return bad(Warning, renew, "/var/lib/dbus/machine-id differs from /etc/machine-id: one of them is of the image this disk was made from")
	}
	if name := s.text(filepath.Join(s.config.StateDir, config.HostNameFile)); name != "" {
		if now, err := s.Hostname(); err == nil && s.config.HostName == "" && name != now {
			return bad(Warning, "on a clone: "+renewID+" && sudo rm -rf "+s.config.StateDir+" && sudo reboot",
				"this disk was enrolled as %q already, and the host is called %q: if it is a copy of that host's disk, both would be refused as clones", name, now)
		}
	}
	uuid := strings.ToLower(s.text("/sys/class/dmi/id/product_uuid"))
	for _, d := range defaultUUIDs {
		if uuid == d {
			return bad(Warning, "set a UUID in the firmware or the hypervisor", "the firmware's UUID %s is not this machine's own: kubeadm warns of several Nodes with one UUID", uuid)
		}
	}
	return good("%s", id)
}
