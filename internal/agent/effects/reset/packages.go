package reset

import (
	"bufio"
	"context"
	"crypto/md5" //nolint:gosec // what dpkg has of each file; it tells versions of a package apart, no attackers
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
)

// packageFiles knows which files the packages of the distribution bring, and with what content. A
// file that changed to just that is the doing of an upgrade, not of a node.
type packageFiles struct {
	once sync.Once
	// sums are the MD5 sums of files, listed all paths, by dpkg.
	sums   map[string]string
	listed map[string]bool
	// certificates are those that packages and the operator have the system trust.
	certificates map[string]bool
}

// own says whether a change is that of a package. Units are not: whoever enables one changes what
// runs. Neither are mode, owner and attributes of a file that was there, nor one that came and others may
// change.
func (p *packageFiles) own(ctx context.Context, c Cleaner, ch change) bool {
	if ch.now == "" || isUnit(ch.name) && strings.HasPrefix(ch.now, "link ") {
		return false
	}
	p.once.Do(func() { p.read(c) })
	if trusted, is := p.trusted(c, ch); is {
		return trusted
	}
	if target, link := strings.CutPrefix(ch.now, "link "); link && ch.before == "" {
		return p.listed[ch.name] || p.chosen(ctx, c, ch.name, target)
	}
	if !keptClosed(ch) {
		return false
	}
	if strings.HasPrefix(ch.now, "file ") {
		if want, known := p.sums[ch.name]; known {
			content, err := c.Root.ReadFile(ch.name)
			sum := md5.Sum(content) //nolint:gosec // as above
			return err == nil && hex.EncodeToString(sum[:]) == want
		}
		return p.verifiedByRPM(ctx, c, ch.name)
	}
	return p.listed[ch.name] && ch.before == ""
}

// keptClosed says whether a file has the mode, owner and attributes that it had, or came with ones by
// which others cannot change it.
func keptClosed(ch change) bool {
	was, is := strings.Fields(withoutInode(ch.before)), strings.Fields(withoutInode(ch.now))
	if ch.before == "" {
		return len(is) >= 2 && !openToOthers(is[1])
	}
	return len(was) >= 3 && len(is) >= 3 && was[1] == is[1] && was[2] == is[2] && (was[len(was)-1] == is[len(is)-1] || len(was) != len(is))
}

// read reads what dpkg knows: configuration files from its status, others from the lists of sums.
func (p *packageFiles) read(c Cleaner) {
	p.sums, p.listed = map[string]string{}, map[string]bool{}
	const database = "/var/lib/dpkg/"
	c.eachLine(database+"status", func(line string) {
		if f := strings.Fields(line); len(f) >= 2 && strings.HasPrefix(line, " /") && len(f[1]) == 2*md5.Size {
			p.sums[f[0]] = f[1]
		}
	})
	lists, _ := filepath.Glob(c.Root.Path(database + "info/*.md5sums"))
	for _, list := range lists {
		c.eachLine(strings.TrimPrefix(list, string(c.Root)), func(line string) {
			if sum, name, ok := strings.Cut(line, "  "); ok {
				// On a system where /lib is a link, packages list the files of /usr/lib there.
				for _, name := range []string{"/" + name, "/usr/" + name} {
					if recorded(name) {
						p.sums[name] = sum
					}
				}
			}
		})
	}
	lists, _ = filepath.Glob(c.Root.Path(database + "info/*.list"))
	for _, list := range lists {
		c.eachLine(strings.TrimPrefix(list, string(c.Root)), func(line string) {
			for _, name := range []string{line, "/usr" + line} {
				if recorded(name) {
					p.listed[name] = true
				}
			}
		})
	}
}

func recorded(name string) bool {
	_, ok := placeOf(name)
	return ok
}

func (c Cleaner) eachLine(name string, f func(string)) {
	file, err := hostfs.Open(c.Root.Path(name))
	if err != nil {
		return // not a host of dpkg, or without that list
	}
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		f(lines.Text())
	}
}

// verifiedByRPM asks rpm whether a file is just as its package has it.
func (p *packageFiles) verifiedByRPM(ctx context.Context, c Cleaner, name string) bool {
	if !c.ofRPM(ctx, name) {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, toolTimeout)
	defer cancel()
	// It exits with 1 when any file of the package differs, and says which.
	out, _ := c.Runner.Run(ctx, "rpm", "--verify", "--nodeps", "--noscripts", "--file", name)
	for line := range strings.Lines(string(out)) {
		if strings.HasSuffix(strings.TrimSpace(line), " "+name) {
			return false
		}
	}
	return true
}

// ofRPM asks rpm whether a package has a file.
func (c Cleaner) ofRPM(ctx context.Context, name string) bool {
	if !present(c.Root.Path("/var/lib/rpm")) && !present(c.Root.Path("/usr/lib/sysimage/rpm")) || !c.Runner.Has("rpm") {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, toolTimeout)
	defer cancel()
	_, err := c.Runner.Run(ctx, "rpm", "--query", "--file", name)
	return err == nil
}

func present(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// openToOthers says of a mode whether anybody may write, or the file runs as its owner.
func openToOthers(mode string) bool {
	bits, err := strconv.ParseUint(mode, 8, 32)
	return err != nil || bits&0o002 != 0 || fs.FileMode(bits)&(fs.ModeSetuid|fs.ModeSetgid) != 0
}

// chosen says of a link that came whether it is one of the system of alternatives, or to a script of a service, and
// leads to what a package has.
func (p *packageFiles) chosen(ctx context.Context, c Cleaner, name, target string) bool {
	const alternatives = "/etc/alternatives/"
	if !filepath.IsAbs(target) {
		target = filepath.Join(filepath.Dir(name), target)
	}
	if strings.HasPrefix(target, alternatives) {
		return true // which is compared itself
	}
	if script, _ := filepath.Match("/etc/rc?.d/*", name); !script && !strings.HasPrefix(name, alternatives) {
		return false
	}
	if p.listed[target] {
		return true
	}
	lists, _ := filepath.Glob(c.Root.Path("/var/lib/dpkg/info/*.list"))
	for _, list := range lists {
		found := false
		c.eachLine(strings.TrimPrefix(list, string(c.Root)), func(line string) { found = found || line == target || "/usr"+line == target })
		if found {
			return true
		}
	}
	return c.ofRPM(ctx, target)
}
