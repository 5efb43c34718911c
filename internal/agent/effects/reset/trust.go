package reset

import (
	"bytes"
	"context"
	"encoding/pem"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
)

// The certificates that the system trusts are made of those of packages and of the operator, by a program of the
// distribution. What it makes is looked at, too: it outlives the file that it was made of.
var (
	trustSources = []string{"/usr/share/ca-certificates", "/usr/local/share/ca-certificates", "/usr/share/pki/ca-trust-source", "/etc/pki/ca-trust/source", "/etc/ca-certificates.conf"}
	trustMade    = []string{"/etc/ssl/certs", "/etc/pki/ca-trust/extracted", "/etc/pki/java/cacerts"}
)

// trusted says of a file that is made of certificates whether each of them is one of a package or of the operator. is
// is false for other files.
func (p *packageFiles) trusted(c Cleaner, ch change) (trusted, is bool) {
	if !below(trustMade, ch.name) || strings.HasPrefix(ch.now, "dir ") {
		return false, false
	}
	if target, link := strings.CutPrefix(ch.now, "link "); link {
		target = absolute(ch.name, target)
		return below(trustSources, target) || below(trustMade, target), true
	}
	content, err := c.Root.ReadFile(ch.name)
	if err != nil || !bytes.Contains(content, []byte("-----BEGIN CERTIFICATE-----")) {
		return err == nil && ch.before != "", true // the same in the format of another program
	}
	if p.certificates == nil {
		p.certificates = map[string]bool{}
		for _, dir := range trustSources {
			_ = filepath.WalkDir(c.Root.Path(dir), func(at string, d fs.DirEntry, err error) error {
				if err == nil && !d.IsDir() {
					data, _ := hostfs.ReadFile(at) // whoever changes these directories can have the system trust anything
					eachCertificate(data, func(der string) { p.certificates[der] = true })
				}
				return nil
			})
		}
	}
	known, count := true, 0
	eachCertificate(content, func(der string) { known, count = known && p.certificates[der], count+1 })
	return known && count > 0, true
}

func eachCertificate(data []byte, f func(der string)) {
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			return
		}
		f(string(block.Bytes))
	}
}

func below(dirs []string, name string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") })
}

// makers are what the distribution makes of files, with the programs that do.
var makers = []struct {
	of       []string
	programs [][]string
}{
	{slices.Concat(trustSources, trustMade), [][]string{{"update-ca-certificates", "--fresh"}, {"update-ca-trust", "extract"}}},
	{[]string{"/etc/ld.so.conf", "/etc/ld.so.conf.d"}, [][]string{{"ldconfig"}}},
	{[]string{"/etc/udev/hwdb.d"}, [][]string{{"systemd-hwdb", "update"}}},
	{[]string{"/etc/aliases"}, [][]string{{"newaliases"}}},
}

// remake has the distribution make again what is made of files that were put back or went, or of which it itself was.
func (c Cleaner) remake(ctx context.Context, files entries) {
	for _, m := range makers {
		if !slices.ContainsFunc(slices.Collect(keys(files)), func(name string) bool { return below(m.of, name) }) {
			continue
		}
		for _, program := range m.programs {
			if !c.Runner.Has(program[0]) {
				continue
			}
			if err := c.tool(ctx, program[0], program[1:]...); err != nil {
				c.Log.Info("what the distribution makes of its files could not be made again", "program", program[0], "err", err)
			}
		}
	}
}
