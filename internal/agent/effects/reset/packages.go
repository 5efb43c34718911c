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
	"strings"
	"sync"
)

// packageFiles knows which files the packages of the distribution bring, and with what content. A
// file that changed to just that is the doing of an upgrade, not of a node.
type packageFiles struct {
	once sync.Once
	// sums are the MD5 sums of files, listed all paths, by dpkg.
	sums   map[string]string
	listed map[string]bool
}

// own says whether a change is that of a package. Units are not: whoever enables one changes what
// runs.
func (p *packageFiles) own(ctx context.Context, c Cleaner, ch change) bool {
	if ch.now == "" || isUnit(ch.name) && strings.HasPrefix(ch.now, "link ") {
		return false
	}
	p.once.Do(func() { p.read(c) })
	if strings.HasPrefix(ch.now, "file ") {
		if want, known := p.sums[ch.name]; known {
			content, err := os.ReadFile(c.Root.Path(ch.name))
			sum := md5.Sum(content) //nolint:gosec // as above
			return err == nil && hex.EncodeToString(sum[:]) == want
		}
		return p.verifiedByRPM(ctx, c, ch.name)
	}
	return p.listed[ch.name] && ch.before == ""
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
			if sum, name, ok := strings.Cut(line, "  "); ok && recorded("/"+name) {
				p.sums["/"+name] = sum
			}
		})
	}
	lists, _ = filepath.Glob(c.Root.Path(database + "info/*.list"))
	for _, list := range lists {
		c.eachLine(strings.TrimPrefix(list, string(c.Root)), func(line string) {
			if recorded(line) {
				p.listed[line] = true
			}
		})
	}
}

func recorded(name string) bool {
	_, ok := placeOf(name)
	return ok
}

func (c Cleaner) eachLine(name string, f func(string)) {
	file, err := os.Open(c.Root.Path(name))
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
	if !present(c.Root.Path("/var/lib/rpm")) && !present(c.Root.Path("/usr/lib/sysimage/rpm")) || !c.Runner.Has("rpm") {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, toolTimeout)
	defer cancel()
	if _, err := c.Runner.Run(ctx, "rpm", "--query", "--file", name); err != nil {
		return false
	}
	// It exits with 1 when any file of the package differs, and says which.
	out, _ := c.Runner.Run(ctx, "rpm", "--verify", "--nodeps", "--noscripts", "--file", name)
	for line := range strings.Lines(string(out)) {
		if strings.HasSuffix(strings.TrimSpace(line), " "+name) {
			return false
		}
	}
	return true
}

func present(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
