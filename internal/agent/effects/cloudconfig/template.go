package cloudconfig

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"strings"

	"github.com/nikolalohinski/gonja/v2/builtins"
	"github.com/nikolalohinski/gonja/v2/config"
	"github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/loaders"
	"github.com/nikolalohinski/gonja/v2/parser"
)

// maxRendered bounds the rendered data in bytes. A Secret holds at most 1 MiB.
const maxRendered = 4 << 20

// MetaData is what a jinja template can refer to. As in cloud-init it is
// reached as ds.meta_data.<key> and, for the standard keys, v1.<key>.
type MetaData struct {
	// LocalHostname is the host name of the machine.
	LocalHostname string
	// InstanceID is the ID of the claim.
	InstanceID string
	// ProviderID is the provider ID the Node will carry.
	ProviderID string
	// LocalIPv4 is the address of the host; empty leaves the variable undefined.
	LocalIPv4 string
}

func (m MetaData) variables() map[string]any {
	standard := map[string]any{"local_hostname": m.LocalHostname, "instance_id": m.InstanceID}
	data := maps.Clone(standard)
	data["hostname"] = m.LocalHostname
	data["provider_id"] = m.ProviderID
	if m.LocalIPv4 != "" {
		data["local_ipv4"] = m.LocalIPv4
	}
	return map[string]any{"ds": map[string]any{"meta_data": data}, "v1": standard}
}

// Loops, includes and global functions are left out: bootstrap data has no use
// for them, and without them the output is bounded by the input.
var (
	templateFilters    = []string{"capitalize", "d", "default", "first", "int", "last", "length", "lower", "replace", "string", "trim", "upper"}
	templateStatements = []string{"if", "raw", "set"}
)

func templateEnvironment() *exec.Environment {
	filters := exec.NewFilterSet(map[string]exec.FilterFunction{})
	for _, name := range templateFilters {
		if f, ok := builtins.Filters.Get(name); ok {
			_ = filters.Register(name, f)
		}
	}
	statements := exec.NewControlStructureSet(map[string]parser.ControlStructureParser{})
	for _, name := range templateStatements {
		if s, ok := builtins.ControlStructures.Get(name); ok {
			_ = statements.Register(name, s)
		}
	}
	return &exec.Environment{
		Context: exec.EmptyContext(), Filters: filters, Tests: builtins.Tests,
		ControlStructures: statements, Methods: builtins.Methods,
	}
}

// render carries out a jinja template the way cloud-init does: the first newline
// after a block is dropped, and an unknown variable is an error.
func render(source string, meta MetaData) (out string, err error) {
	// The library panics on some malformed input.
	defer func() {
		if r := recover(); r != nil {
			out, err = "", templateError(nil)
		}
	}()
	settings := config.New()
	settings.StrictUndefined = true
	settings.TrimBlocks = true
	settings.KeepTrailingNewline = true
	loader, err := loaders.NewMemoryLoader(map[string]string{"/data": source})
	if err != nil {
		return "", templateError(err)
	}
	template, err := exec.NewTemplate("/data", settings, loader, templateEnvironment())
	if err != nil {
		return "", templateError(err)
	}
	var b strings.Builder
	if err := template.Execute(&limitedWriter{w: &b, left: maxRendered}, exec.NewContext(meta.variables())); err != nil {
		return "", templateError(err)
	}
	return b.String(), nil
}

var (
	errorLine = regexp.MustCompile(`(?i)line:? (\d+)`)
	errorName = regexp.MustCompile(`evaluate (?:name )?"?([A-Za-z_][\w.\-\[\]']{0,80})"?(?::|$)`)
)

// templateError tells the line and the variable only: the library's own text
// quotes the whole template.
func templateError(cause error) error {
	text := ""
	if cause != nil {
		text = cause.Error()
	}
	place := "the jinja template of the bootstrap data"
	if m := lastMatch(errorLine, text); m != "" {
		place += ", line " + m + " below its header"
	}
	if errors.Is(cause, errTooLong) {
		return &Error{Reason: ReasonInvalidTemplate, Message: fmt.Sprintf("%s renders to more than %d bytes", place, maxRendered)}
	}
	if name := lastMatch(errorName, text); name != "" {
		return &Error{Reason: ReasonInvalidTemplate, Message: fmt.Sprintf(
			"%s: %q has no value; known are ds.meta_data.{local_hostname,hostname,instance_id,provider_id,local_ipv4}", place, name)}
	}
	return &Error{Reason: ReasonInvalidTemplate, Message: fmt.Sprintf(
		"%s cannot be rendered; supported are {{ expressions }} with the filters %s, and the statements %s (put {%% raw %%} around braces that are meant literally)",
		place, strings.Join(templateFilters, ", "), strings.Join(templateStatements, ", "))}
}

func lastMatch(re *regexp.Regexp, s string) string {
	all := re.FindAllStringSubmatch(s, -1)
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1][1]
}

var errTooLong = errors.New("output too long")

type limitedWriter struct {
	w    io.Writer
	left int
}

func (l *limitedWriter) Write(p []byte) (int, error) {
	if len(p) > l.left {
		return 0, errTooLong
	}
	l.left -= len(p)
	return l.w.Write(p)
}
