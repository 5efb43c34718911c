package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// command is a program or a subcommand of it.
type command struct {
	// flags by name and by letter; true when a value follows.
	flags map[string]bool
	// letters are the short forms of flags.
	letters map[string]string
	// parent is true when a word that follows must be a subcommand.
	parent bool
}

var (
	flagLine = regexp.MustCompile(`^\s+(?:-(\w), )?--?([a-zA-Z][\w-]*)(?:(?: |\[?=)([\w.,=\[\]"-]+))?(?:\s{2,}|$)`)
	// commonLine names flags that the reference describes once, for many commands.
	commonLine  = regexp.MustCompile(`^ {6}(--[a-z-]+(?:, --[a-z-]+)*)$`)
	letterLine  = regexp.MustCompile(`^\s+-(\w) (\w+)$`)
	commandLine = regexp.MustCompile(`^  ([a-z]+) {2,}\S`)
	target      = regexp.MustCompile(`(?m)^([a-z][a-z0-9 -]*):(?:[^=]|$)`)
	testFlag    = regexp.MustCompile(`-(run|bench) '?([A-Z]\w*)`)
	separators  = regexp.MustCompile("[|;&`()]+|\\s#\\s|\\$\\(|[<>]")
	quoted      = regexp.MustCompile(`"[^"]*"|'[^']*'`)
	flagName    = regexp.MustCompile(`^--([a-z][a-z-]+)`)
)

// foreign are flags of other programs that documents speak of.
var foreign = []string{
	"bootstrap-token-ttl", "client-ca-file", "control-plane-machine-count", "cluster-signing-cert-file", "enable-bootstrap-token-auth", "from-directory",
	"kubernetes-version", "provider-id", "register-node", "target-namespace", "to-directory", "worker-machine-count",
}

// Every command of ours that a document quotes exists, with its flags.
func TestCommands(t *testing.T) {
	commands := programs(t)
	targets := makeTargets(t)
	checked := 0
	for _, d := range documents(t) {
		if strings.HasPrefix(d.path, "docs/reference/") {
			continue
		}
		for _, call := range d.calls() {
			words := strings.Fields(quoted.ReplaceAllString(call.text, "VALUE"))
			for len(words) > 0 && (words[0] == "sudo" || words[0] == "exec" || strings.Contains(words[0], "=")) {
				words = words[1:]
			}
			if len(words) == 0 {
				continue
			}
			switch program := filepath.Base(words[0]); {
			case program == "make" && len(words) > 1:
				checked++
				checkMake(t, d.path, call.number, targets, words[1:])
			case program == "go" && len(words) > 1 && words[1] == "test":
				checked++
				checkTest(t, d.path, call, words[2:])
			case commands[program] != nil:
				checked++
				checkCall(t, d.path, call.number, commands, program, words[1:])
			case strings.HasPrefix(call.text, "--"):
				if name := flagName.FindStringSubmatch(call.text); name != nil && !slices.Contains(foreign, name[1]) && !anyHas(commands, name[1]) {
					t.Errorf("%s:%d: nothing has the flag --%s", d.path, call.number, name[1])
				}
			}
		}
	}
	if checked < 150 {
		t.Errorf("only %d commands were found", checked)
	}
}

type call struct {
	text   string
	number int
}

// calls are the commands of code blocks and of code within text.
func (d document) calls() []call {
	var found []call
	add := func(text string, number int) {
		for _, part := range separators.Split(text, -1) {
			if part = strings.TrimSpace(part); part != "" {
				found = append(found, call{part, number})
			}
		}
	}
	continued := false
	broken := "" // text with code that goes on in the next line
	for _, l := range d.lines {
		text := strings.TrimSpace(l.text)
		if l.fenced || text == "" {
			broken = ""
		}
		switch {
		case !l.fenced:
			whole := broken + l.text
			if broken = ""; strings.Count(whole, "`")%2 == 1 {
				broken = whole + " "
				continue
			}
			for _, match := range inlineCode.FindAllStringSubmatch(whole, -1) {
				add(strings.ReplaceAll(match[1], `\|`, "|"), l.number)
			}
		case l.language == "sh":
			add(text, l.number)
		case l.language == "console" && strings.HasPrefix(text, "$ "), l.language == "console" && strings.HasPrefix(text, "# "):
			add(text[2:], l.number)
			continued = strings.HasSuffix(text, `\`)
			continue
		case l.language == "console" && continued:
			continued = strings.HasSuffix(text, `\`)
			continue
		}
		continued = false
	}
	return found
}

func checkMake(t *testing.T, path string, number int, targets map[string]bool, words []string) {
	t.Helper()
	for _, word := range words {
		if name, _, isVariable := strings.Cut(word, "="); isVariable {
			if !targets[name+"="] {
				t.Errorf("%s:%d: no Makefile reads %s", path, number, name)
			}
		} else if !targets[strings.Trim(word, ".,")] {
			t.Errorf("%s:%d: there is no `make %s`", path, number, word)
		}
	}
}

// checkTest looks for the packages of a call of go test, and for the tests that it names by -run or
// -bench. Calls below another module's folder name packages from there.
func checkTest(t *testing.T, path string, c call, words []string) {
	t.Helper()
	var folders []string
	for _, word := range words {
		if strings.HasPrefix(word, "./") {
			folder := strings.TrimSuffix(strings.Trim(word, ".,"), "/...")
			folders = append(folders, filepath.Join(root, folder), filepath.Join(root, "sdk", folder), filepath.Join(root, "plane", folder))
		}
	}
	var text strings.Builder
	for _, folder := range folders {
		files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text.Write(data)
		}
	}
	if len(folders) > 0 && text.Len() == 0 {
		t.Errorf("%s:%d: no package of %q has tests", path, c.number, c.text)
	}
	for _, match := range testFlag.FindAllStringSubmatch(c.text, -1) {
		kind := map[string]string{"run": "Test", "bench": "Benchmark"}[match[1]]
		if name := strings.TrimPrefix(match[2], kind); !strings.Contains(text.String(), "func "+kind+name) {
			t.Errorf("%s:%d: no test of %q is called %s%s", path, c.number, c.text, kind, name)
		}
	}
}

func checkCall(t *testing.T, path string, number int, commands map[string]*command, name string, words []string) {
	t.Helper()
	for i := 0; i < len(words); i++ {
		word := strings.Trim(words[i], "[],.:")
		switch {
		case word == "--":
			return
		case word == "help" || word == "--help" || word == "-h", strings.ContainsAny(word, "$…<"), word == "":
		case strings.HasPrefix(word, "-") && word != "-":
			flag, _, hasValue := strings.Cut(strings.TrimLeft(word, "-"), "=")
			takes, known := commands[name].flags[flag]
			if !known {
				t.Errorf("%s:%d: `%s` has no flag %s", path, number, name, word)
			}
			if takes && !hasValue {
				i++
			}
		case commands[name+" "+word] != nil:
			name += " " + word
		case commands[name].parent && strings.ToUpper(word) != word:
			t.Errorf("%s:%d: `%s` has no command %q", path, number, name, word)
			return
		}
	}
}

func anyHas(commands map[string]*command, flag string) bool {
	for _, c := range commands {
		if _, ok := c.flags[flag]; ok {
			return true
		}
	}
	return false
}

// programs reads the generated references, which are what the programs say of
// themselves.
func programs(t *testing.T) map[string]*command {
	t.Helper()
	found := map[string]*command{}
	const many = "Flags of many commands"
	for _, page := range []string{"cli.md", "programs.md"} {
		var current string
		for _, l := range read(t, root+"/docs/reference/"+page).lines {
			if match := heading.FindStringSubmatch(l.text); !l.fenced && match != nil && (strings.HasPrefix(match[1], "slipway") || match[1] == many) && strings.HasPrefix(l.text, "## ") {
				current = match[1]
				found[current] = &command{flags: map[string]bool{"help": false}, letters: map[string]string{}}
				if i := strings.LastIndex(current, " "); i > 0 && current != many {
					found[current[:i]].parent = true
				}
			}
			if !l.fenced || current == "" {
				continue
			}
			if match := commonLine.FindStringSubmatch(l.text); match != nil {
				for flag := range strings.SplitSeq(match[1], ", ") {
					flag = strings.TrimPrefix(flag, "--")
					found[current].flags[flag] = found[many].flags[flag]
					if letter := found[many].letters[flag]; letter != "" {
						found[current].flags[letter] = found[many].flags[flag]
					}
				}
			} else if match := flagLine.FindStringSubmatch(l.text); match != nil {
				found[current].flags[match[2]] = match[3] != ""
				if match[1] != "" {
					found[current].flags[match[1]] = match[3] != ""
					found[current].letters[match[2]] = match[1]
				}
			} else if match := letterLine.FindStringSubmatch(l.text); match != nil {
				found[current].flags[match[1]] = true
			} else if match := commandLine.FindStringSubmatch(l.text); match != nil && page == "programs.md" {
				found[current].parent = true
				found[current+" "+match[1]] = &command{flags: found[current].flags, letters: found[current].letters}
			}
		}
	}
	for _, name := range []string{"slipway host logs", "slipway-agent preflight", "slipway-manager", "slipway-lifecycle", "slipway-console"} {
		if found[name] == nil || len(found[name].flags) == 0 {
			t.Fatalf("the references do not have %s", name)
		}
	}
	return found
}

// makeTargets are the targets of make, and its variables with a = behind them.
func makeTargets(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, file := range []string{"Makefile", "nodebundle/bundle.mk"} {
		data, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range target.FindAllStringSubmatch(string(data), -1) {
			for name := range strings.FieldsSeq(match[1]) {
				found[name] = true
			}
		}
		for _, match := range regexp.MustCompile(`\$[({]([A-Z][A-Z_]+)[)}]`).FindAllStringSubmatch(string(data), -1) {
			found[match[1]+"="] = true
		}
	}
	return found
}
