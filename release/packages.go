package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers itself
	nfpmfiles "github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm" // registers itself
)

const (
	agent = "slipway-agent"
	// byHand and packaged are where the agent is: put there by `slipway host add` or a person,
	// and by a package, which leaves /usr/local to them (Filesystem Hierarchy Standard 3.0, 4.9.1).
	byHand, packaged = "/usr/local/bin/" + agent, "/usr/bin/" + agent
)

// packageFormat is a format of packages, by nfpm's name of it.
type packageFormat struct {
	name string
	// recommends are what preflight asks for and a machine may lack, by its distributions' names.
	recommends []string
}

var packageFormats = []packageFormat{
	{"deb", []string{"conntrack", "ethtool", "iproute2", "iptables", "mount", "nftables"}},
	{"rpm", []string{"conntrack-tools", "ethtool", "iproute", "iptables-nft", "nftables", "util-linux"}},
}

// writePackages packs the agents of the release for the package managers of machines. They
// start nothing: a host enrolls when it is told where.
func (r *release) writePackages(context.Context) error {
	return r.packInto(r.assets(), func(arch string) string { return r.binary(agent, platform{"linux", arch}) })
}

// pack writes the packages of one agent, beside nothing else.
func (r *release) pack(program string) error {
	if len(r.architectures) != 1 {
		return fmt.Errorf("-agent %s is for one architecture, and -architectures names %d", program, len(r.architectures))
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	return r.packInto(r.out, func(string) string { return program })
}

// packInto writes the packages of all formats and architectures into a directory; program is
// the agent for an architecture.
func (r *release) packInto(to string, program func(arch string) string) error {
	dir, err := os.MkdirTemp("", "slipway-packages")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	unit, err := r.packagedUnit(dir)
	if err != nil {
		return err
	}
	for _, arch := range r.architectures {
		for _, format := range packageFormats {
			file := filepath.Join(to, agent+"-linux-"+arch+"."+format.name)
			if err := r.writePackage(format, arch, unit, program(arch), file); err != nil {
				return fmt.Errorf("%s for %s: %w", format.name, arch, err)
			}
		}
	}
	return nil
}

// packagedUnit writes the agent's unit into a directory, with the agent where a package has it.
func (r *release) packagedUnit(dir string) (path string, _ error) {
	content, err := os.ReadFile(filepath.Join(r.source, "config", "agent", agent+".service"))
	if err != nil {
		return "", err
	}
	start := []byte("ExecStart=" + byHand + " ")
	if bytes.Count(content, start) != 1 || bytes.Count(content, []byte(byHand)) != 1 {
		return "", fmt.Errorf("%s.service does not start %s once", agent, byHand)
	}
	path = filepath.Join(dir, agent+".service")
	return path, os.WriteFile(path, bytes.Replace(content, start, []byte("ExecStart="+packaged+" "), 1), 0o644)
}

// writePackage packs a program and its unit.
func (r *release) writePackage(format packageFormat, arch, unit, program, to string) (err error) {
	script := func(name string) string { return filepath.Join(r.source, "config", "agent", "package", name) }
	file := func(from, to string, mode os.FileMode) *nfpmfiles.Content {
		return &nfpmfiles.Content{Source: from, Destination: to, FileInfo: &nfpmfiles.ContentFileInfo{Owner: "root", Group: "root", Mode: mode, MTime: r.time}}
	}
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: agent, Arch: arch, Platform: "linux", Version: r.version, MTime: r.time, DisableGlobbing: true,
		Section: "admin", Priority: "optional", Maintainer: "The Slipway maintainers <" + homepage + ">", Homepage: homepage, License: "Apache-2.0",
		Description: "Make this machine a host of Cluster API\nAgent of the infrastructure provider Slipway. Enroll the machine with `slipway-agent join`.",
		Overridables: nfpm.Overridables{
			Recommends: format.recommends,
			Contents: nfpmfiles.Contents{
				file(program, packaged, 0o755),
				file(unit, "/usr/lib/systemd/system/"+agent+".service", 0o644),
				// rpm removes the directories that are named
				{Type: nfpmfiles.TypeDir, Destination: "/usr/share/doc/" + agent, FileInfo: &nfpmfiles.ContentFileInfo{Owner: "root", Group: "root", Mode: 0o755, MTime: r.time}},
				file(filepath.Join(r.source, "LICENSE"), "/usr/share/doc/"+agent+"/copyright", 0o644),
			},
			Scripts: nfpm.Scripts{PostInstall: script("postinstall.sh"), PreRemove: script("preremove.sh"), PostRemove: script("postremove.sh")},
			RPM:     nfpm.RPM{BuildHost: "localhost", Summary: "Make this machine a host of Cluster API"},
		},
	})
	packager, err := nfpm.Get(format.name)
	if err != nil {
		return err
	}
	if err := nfpm.PrepareForPackager(info, format.name); err != nil {
		return err
	}
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() {
		if closed := f.Close(); err == nil {
			err = closed
		}
	}()
	return packager.Package(info, f)
}
