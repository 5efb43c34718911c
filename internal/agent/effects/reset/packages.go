package reset

import (
	"bufio"
	"context"
	"crypto/md5" //nolint:gosec // what dpkg has of each file; it tells versions of a package apart, no attackers
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
)

// packageFiles knows which files the packages of the distribution bring, and with what content. A
// file that changed to just that is the doing of an upgrade, not of a node.
type packageFiles struct {
	once sync.Once
	// before is the record of the host; versions are those of now.
	before   *record
	versions map[string]string
	// wanted are the paths that changed, and those that links lead to which did. Of them alone, sums are the MD5 sums by dpkg, and
	// listed those that it has.
	wanted map[string]bool
	sums   map[string]string
	listed map[string]bool
	// certificates are those that packages and the operator have the system trust.
	certificates map[string]bool
}

// own says whether a change is that of a package. Units are not: whoever enables one changes what
// runs. Neither are mode, owner and attributes of a file that was there, nor one that came and others may
// change.
func (p *packageFiles) own(ctx context.Context, c Cleaner, ch change, before, now entries) bool {
	p.once.Do(func() { p.read(c, before, now) })
	switch list := strings.HasPrefix(ch.name, packageLists+"/"); {
	case list && p.changed(packageOf(ch.name)):
		return true
	case list && filepath.Ext(ch.name) != ".list":
		return false
	case list, below(packageChoices, ch.name):
		return p.anyChanged() // dpkg writes the list of a package again when another one gets one of its files, and packages divert files
	}
	if ch.now == "" || isUnit(ch.name) && strings.HasPrefix(ch.now, "link ") {
		return false
	}
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

const (
	packageDatabase = "/var/lib/dpkg/status"
	// packageLists is the directory with what dpkg knows of each package.
	packageLists = "/var/lib/dpkg/info"
)

// packageChoices are what dpkg is told to put elsewhere, or to give another mode, than packages say.
var packageChoices = []string{"/var/lib/dpkg/diversions", "/var/lib/dpkg/statoverride"}

// heldTrace is that of packages that dpkg is told to keep at their version. With "hold", their upgrades with what they mend are left out.
func (c Cleaner) heldTrace() trace {
	set := func(ctx context.Context, names []string, to string) error {
		ctx, cancel := context.WithTimeout(ctx, toolTimeout)
		defer cancel()
		_, err := c.Runner.RunInput(ctx, []byte(strings.Join(names, " "+to+"\n")+" "+to+"\n"), "dpkg", "--set-selections")
		return err
	}
	return trace{
		kind: kindHold, word: "held package", gone: true,
		look: func(context.Context) (entries, error) {
			found, name := entries{}, ""
			c.eachLine(packageDatabase, func(line string) {
				if is, ok := strings.CutPrefix(line, "Package: "); ok {
					name = is
				} else if strings.HasPrefix(line, "Status: hold ") {
					found[name] = "held"
				}
			})
			return found, nil
		},
		remove: func(ctx context.Context, names []string) error { return set(ctx, names, "install") },
		restore: func(ctx context.Context, before entries) error {
			return set(ctx, slices.Sorted(keys(before)), "hold")
		},
	}
}

// packageOf is the package that a file of packageLists is of.
func packageOf(name string) string {
	base := filepath.Base(name)
	return strings.TrimSuffix(base, filepath.Ext(base))
}

// packageVersions has the version of each package, and a digest of what dpkg has of its configuration files, by the name that its files in
// packageLists begin with. configuration is called with each such file and its sum; it may be nil.
func (c Cleaner) packageVersions(configuration func(pkg, file, sum string)) map[string]string {
	found := map[string]string{}
	var name, architecture, version string
	var files []string
	multi := false
	end := func() {
		if multi {
			name += ":" + architecture
		}
		if name != "" {
			sum := sha256.Sum256([]byte(strings.Join(files, "\n")))
			found[name] = version + " " + hex.EncodeToString(sum[:8])
		}
		for _, line := range files {
			if f := strings.Fields(line); configuration != nil && len(f) >= 2 {
				configuration(name, f[0], f[1])
			}
		}
		name, architecture, version, files, multi = "", "", "", nil, false
	}
	c.eachLine(packageDatabase, func(line string) {
		key, value, _ := strings.Cut(line, ": ")
		switch {
		case line == "":
			end()
		case strings.HasPrefix(line, " /"):
			if f := strings.Fields(line); len(f) >= 2 && len(f[1]) == 2*md5.Size {
				files = append(files, strings.TrimSpace(line))
			}
		case key == "Package":
			name = value
		case key == "Architecture":
			architecture = value
		case key == "Version":
			version = value
		case key == "Multi-Arch":
			multi = value == "same"
		}
	})
	end()
	return found
}

// changed says whether a package came, went, or has another version than at the record: then its lists and scripts are others, too.
// Of records without packages it is not known: then it counts as changed.
func (p *packageFiles) changed(pkg string) bool {
	if p.before == nil || p.before.Packages == nil {
		return true
	}
	was, _, _ := strings.Cut(p.before.Packages[pkg], " ")
	is, _, _ := strings.Cut(p.versions[pkg], " ")
	return was != is || p.before.Packages[pkg] == "" && p.versions[pkg] != ""
}

// anyChanged says so of all packages.
func (p *packageFiles) anyChanged() bool {
	return p.before == nil || slices.ContainsFunc(slices.AppendSeq(slices.Collect(maps.Keys(p.versions)), maps.Keys(p.before.Packages)), p.changed)
}

// believed says whether a list of a package may tell which files it brings: one that changed without the package was written by somebody
// else, as was one of a package that dpkg does not have.
func (p *packageFiles) believed(list string, now entries) bool {
	if p.before == nil || p.before.Packages == nil {
		return true
	}
	pkg := packageOf(list)
	if p.changed(pkg) {
		return p.versions[pkg] != ""
	}
	return now[list] == p.before.Traces[kindFile][list]
}

// read reads what dpkg knows of what changed: configuration files from its status, others from the lists of sums.
func (p *packageFiles) read(c Cleaner, before, now entries) {
	p.wanted, p.sums, p.listed = map[string]bool{}, map[string]string{}, map[string]bool{}
	for name, is := range now {
		if before[name] != is {
			p.wanted[name] = true
			if target, link := strings.CutPrefix(is, "link "); link {
				p.wanted[absolute(name, target)] = true
			}
		}
	}
	configuration := map[string][][2]string{}
	p.versions = c.packageVersions(func(pkg, file, sum string) { configuration[pkg] = append(configuration[pkg], [2]string{file, sum}) })
	for pkg, files := range configuration {
		if p.changed(pkg) || p.versions[pkg] == p.before.Packages[pkg] {
			for _, f := range files {
				p.sums[f[0]] = f[1]
			}
		}
	}
	lists, _ := filepath.Glob(c.Root.Path(packageLists + "/*"))
	for _, at := range lists {
		list, extension := strings.TrimPrefix(at, string(c.Root)), filepath.Ext(at)
		if extension != ".md5sums" && extension != ".list" || !p.believed(list, now) {
			continue
		}
		c.eachLine(list, func(line string) {
			sum, file := "", line
			if extension == ".md5sums" {
				sum, file, _ = strings.Cut(line, "  ")
				file = "/" + file
			}
			// On a system where /lib is a link, packages list the files of /usr/lib there.
			for _, name := range []string{file, "/usr" + file} {
				switch {
				case !p.wanted[name]:
				case extension == ".list":
					p.listed[name] = true
				default:
					p.sums[name] = sum
				}
			}
		})
	}
}

// absolute is where a link leads to.
func absolute(link, target string) string {
	if filepath.IsAbs(target) {
		return target
	}
	return filepath.Join(filepath.Dir(link), target)
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
	if target = absolute(name, target); strings.HasPrefix(target, alternatives) {
		return true // which is compared itself
	}
	if script, _ := filepath.Match("/etc/rc?.d/*", name); !script && !strings.HasPrefix(name, alternatives) {
		return false
	}
	return p.listed[target] || c.ofRPM(ctx, target)
}
