package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

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

// pkg is what a package manager installs at once.
type pkg struct {
	name, summary, description string
	// recommends are packages that make it more useful, by the format whose distributions name
	// them so.
	recommends map[string][]string
	// files, by their absolute paths.
	files []entry
	// scripts is the directory of its postinstall.sh, preremove.sh and postremove.sh, those that
	// there are, in config.
	scripts string
}

// packageFormats by nfpm's names of them.
var packageFormats = []string{"deb", "rpm"}

// machineTools are what preflight asks for and a machine may lack.
var machineTools = map[string][]string{
	"deb": {"conntrack", "ethtool", "iproute2", "iptables", "mount", "nftables"},
	"rpm": {"conntrack-tools", "ethtool", "iproute", "iptables-nft", "nftables", "util-linux"},
}

// writePackages packs the agent and the plane for the package managers of machines.
func (r *release) writePackages(context.Context) error {
	for _, arch := range r.architectures {
		if err := errors.Join(r.packAgent(arch), r.pack(r.planePackage(arch), arch)); err != nil {
			return err
		}
	}
	return nil
}

// packOnly writes the packages of programs that are built, beside nothing else.
func (r *release) packOnly(ctx context.Context) error {
	if len(r.architectures) != 1 {
		return fmt.Errorf("-packages %s has programs for one architecture, and -architectures names %d", r.built, len(r.architectures))
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	return r.writePackages(ctx)
}

// packAgent writes the packages of an agent. They start nothing: a host enrolls when it is told
// where.
func (r *release) packAgent(arch string) error {
	dir, err := os.MkdirTemp("", "slipway-packages")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	unit, err := r.packagedUnit(dir)
	if err != nil {
		return err
	}
	return r.pack(pkg{
		name: agent, summary: "Make this machine a host of Cluster API", recommends: machineTools, scripts: "agent/package",
		description: "Agent of the infrastructure provider Slipway. Enroll the machine with `slipway-agent join`.",
		files: []entry{
			{packaged, r.binary(agent, platform{"linux", arch}), 0o755},
			{"/usr/lib/systemd/system/" + agent + ".service", unit, 0o644},
		},
	}, arch)
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

// pack writes a package in all formats.
func (r *release) pack(p pkg, arch string) error {
	for _, format := range packageFormats {
		if err := r.writePackage(p, format, arch, filepath.Join(r.assets(), p.name+"-linux-"+arch+"."+format)); err != nil {
			return fmt.Errorf("%s of %s for %s: %w", format, p.name, arch, err)
		}
	}
	return nil
}

func (r *release) writePackage(p pkg, format, arch, to string) (err error) {
	scripts, err := r.scripts(p)
	if err != nil {
		return err
	}
	doc := "/usr/share/doc/" + p.name
	files := append(slices.Clone(p.files),
		// rpm removes the directories that are named
		entry{doc, "", fs.ModeDir | 0o755}, entry{doc + "/copyright", filepath.Join(r.source, "LICENSE"), 0o644})
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: p.name, Arch: arch, Platform: "linux", Version: r.version, MTime: r.time, DisableGlobbing: true,
		Section: "admin", Priority: "optional", Maintainer: "The Slipway maintainers <" + homepage + ">", Homepage: homepage, License: "Apache-2.0",
		Description: p.summary + "\n" + p.description,
		Overridables: nfpm.Overridables{
			Recommends: p.recommends[format],
			Contents:   r.contents(files),
			Scripts:    scripts,
			RPM:        nfpm.RPM{BuildHost: "localhost", Summary: p.summary},
		},
	})
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	if err := nfpm.PrepareForPackager(info, format); err != nil {
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

// contents are entries as nfpm takes them: root's, and as old as the release.
func (r *release) contents(entries []entry) (contents nfpmfiles.Contents) {
	for _, e := range entries {
		content := &nfpmfiles.Content{Source: e.from, Destination: e.name, FileInfo: &nfpmfiles.ContentFileInfo{Owner: "root", Group: "root", Mode: e.mode.Perm(), MTime: r.time}}
		switch e.mode.Type() {
		case fs.ModeDir:
			content.Type, content.Source = nfpmfiles.TypeDir, ""
		case fs.ModeSymlink:
			content.Type = nfpmfiles.TypeSymlink
		default:
		}
		contents = append(contents, content)
	}
	return contents
}

// scripts are those of a package that there are.
func (r *release) scripts(p pkg) (all nfpm.Scripts, _ error) {
	if p.scripts == "" {
		return all, nil
	}
	for name, of := range map[string]*string{"postinstall.sh": &all.PostInstall, "preremove.sh": &all.PreRemove, "postremove.sh": &all.PostRemove} {
		path := filepath.Join(r.source, "config", filepath.FromSlash(p.scripts), name)
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return all, err
		}
		*of = path
	}
	return all, nil
}
