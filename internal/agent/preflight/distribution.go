package preflight

import (
	"fmt"
	"slices"
	"strings"

	"github.com/slipway-dev/slipway/internal/agent/hostos/inventory"
)

// family is how a distribution installs software.
type family string

const (
	familyDeb   family = "deb"
	familyRPM   family = "rpm"
	familyOther family = ""
)

// distribution is the host's operating system.
type distribution struct {
	family family
	// id as in os-release, such as debian, ubuntu, rhel.
	id string
	// name as the system calls itself.
	name string
	// archive is ubuntu or debian, whose packages fit a distribution of familyDeb.
	archive string
}

// readDistribution goes by os-release(5), where a derivative names its ancestors.
func readDistribution(h Host) distribution {
	fields := inventory.OSRelease(h.ReadFile)
	d := distribution{id: fields["ID"], name: fields["PRETTY_NAME"]}
	like := append(strings.Fields(fields["ID_LIKE"]), d.id)
	switch {
	case slices.Contains(like, "debian") || slices.Contains(like, "ubuntu"):
		d.family, d.archive = familyDeb, "debian"
		if slices.Contains(like, "ubuntu") {
			d.archive = "ubuntu"
		}
	case slices.Contains(like, "rhel") || slices.Contains(like, "fedora") || slices.Contains(like, "centos"):
		d.family = familyRPM
	}
	return d
}

// install is the command that installs a package, by its name in each family.
func (d distribution) install(deb, rpm string) string {
	switch d.family {
	case familyDeb:
		return "sudo apt-get install -y " + deb
	case familyRPM:
		return "sudo dnf install -y " + rpm
	case familyOther:
	}
	return fmt.Sprintf("install %s with the package manager of this system", deb)
}

// either chooses the command of the family.
func (d distribution) either(deb, rpm string) string {
	if d.family == familyRPM {
		return rpm
	}
	return deb
}
