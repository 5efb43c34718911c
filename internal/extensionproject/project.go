package extensionproject

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooks/host"
)

// Options says what is made.
type Options struct {
	// Name of the extension: of its program, Service, namespace and registration, so
	// that it is a DNS label that begins with a letter. Required.
	Name string
	// Module is the path of the Go module. Default: example.com/<Name>.
	Module string
	// Hooks that the extension handles, all of one API group, as Hooks lists them. At
	// least one is required.
	Hooks []string
	// SDKVersion is the version of the SDK that the module requires. What is no version
	// of a release, such as that of a build from a work tree, is left to `go mod tidy`,
	// which takes the newest.
	SDKVersion string
	// SDK is the folder of a work tree's SDK, which the module then uses in place of a published
	// version. Default: none.
	SDK string
}

// project is what templates read.
type project struct {
	Name, Module string
	// SDKVersion is empty when `go mod tidy` chooses.
	SDKVersion string
	// SDK is the path that replaces the module of the SDK, empty for none.
	SDK string
	// Host is true for hooks of the slipway provider.
	Host bool
	// TypesPackage is the import path of the requests and responses, Types its name
	// in the source and Hooks the package that defines the hooks.
	TypesPackage, Types, Hooks string
	Handlers                   []handler
}

// handler is one function of the extension.
type handler struct {
	// Hook is the hook's name, Func the function's and Name the handler's.
	Hook, Func, Name string
	// Summary says when it is called.
	Summary string
	// Blocking hooks may ask to be called again.
	Blocking bool
	// Acts is true where success claims that something was done.
	Acts bool
}

const sdkModule = "github.com/slipway-dev/slipway/sdk"

// acts are hooks that nobody can answer without doing or deciding something: an empty
// answer would be a machine that was never updated, or a plan without steps.
var acts = []string{"UpdateMachine", "GenerateUpgradePlan"}

// Hooks returns the names of the hooks that an extension can handle, in order.
func Hooks() []string {
	definitions, err := known()
	if err != nil {
		return nil
	}
	names := make([]string, 0, len(definitions))
	for name := range definitions {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// known are the hooks at the version that is not deprecated, without discovery, which the
// server of the SDK answers itself.
func known() (map[string]*hook.Definition, error) {
	catalog := hook.NewCatalog()
	if err := errors.Join(capi.AddToCatalog(catalog), host.AddToCatalog(catalog)); err != nil {
		return nil, err
	}
	definitions := map[string]*hook.Definition{}
	for _, d := range catalog.All() {
		if !d.Meta.Singleton && d.Meta.Lifecycle.Deprecated.Version == "" {
			definitions[d.Name.Hook] = d
		}
	}
	return definitions, nil
}

// plan checks the options and computes what the templates read.
func plan(o Options) (*project, error) {
	if problems := validation.IsDNS1035Label(o.Name); len(problems) > 0 {
		return nil, fmt.Errorf("name %q: %s", o.Name, problems[0])
	}
	p := &project{Name: o.Name, Module: o.Module}
	if p.Module == "" {
		p.Module = "example.com/" + o.Name
	}
	err := module.CheckImportPath(p.Module)
	if err != nil {
		return nil, fmt.Errorf("module: %w", err)
	}
	if released(o.SDKVersion) {
		p.SDKVersion = o.SDKVersion
	}
	if o.SDK != "" {
		if p.SDK, err = localSDK(o.SDK); err != nil {
			return nil, err
		}
		p.SDKVersion = cmp.Or(p.SDKVersion, "v0.0.0")
	}
	return p, p.addHooks(o.Hooks)
}

// localSDK returns the folder as go.mod has it.
func localSDK(folder string) (string, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return "", err
	}
	data, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	if err != nil {
		return "", fmt.Errorf("sdk: %w", err)
	}
	if path := modfile.ModulePath(data); path != sdkModule {
		return "", fmt.Errorf("sdk: %s is module %q, want %s, which is the folder sdk of a clone of Slipway", folder, path, sdkModule)
	}
	return modfile.AutoQuote(filepath.ToSlash(folder)), nil
}

func (p *project) addHooks(names []string) error {
	definitions, err := known()
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return fmt.Errorf("no hook is named: want some of %s", strings.Join(Hooks(), ", "))
	}
	for i, name := range names {
		d := definitions[name]
		if d == nil {
			return fmt.Errorf("hook %q is not known: want some of %s", name, strings.Join(Hooks(), ", "))
		}
		if slices.Contains(names[:i], name) {
			return fmt.Errorf("hook %s is named twice", name)
		}
		ofHost := d.Name.Group != capi.BeforeClusterCreate.Definition().Name.Group
		if i == 0 {
			p.Host = ofHost
			p.TypesPackage = reflect.TypeOf(d.NewRequest()).Elem().PkgPath()
			p.Types, p.Hooks = "hooksv1", "capi"
			if ofHost {
				p.Types, p.Hooks = "hostv1", "host"
			}
		}
		if ofHost != p.Host {
			return fmt.Errorf("hooks %s and %s cannot be in one extension: those of the slipway provider are registered by a HostExtensionConfig, those of Cluster API by an ExtensionConfig", names[0], name)
		}
		p.Handlers = append(p.Handlers, handler{
			Hook: name, Func: strings.ToLower(name[:1]) + name[1:], Name: kebab(name),
			Summary: summary(d), Blocking: d.Blocking(), Acts: slices.Contains(acts, name),
		})
	}
	return nil
}

// summary turns "Cluster API Runtime will call this hook before …" into "is called before …".
func summary(d *hook.Definition) string {
	for _, caller := range []string{"Cluster API Runtime will call this hook ", "The provider calls this hook "} {
		if when, ok := strings.CutPrefix(d.Meta.Summary, caller); ok {
			return "is called " + when
		}
	}
	return "handles " + d.Name.Hook
}

// kebab turns BeforeClusterCreate into before-cluster-create.
func kebab(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// released says whether module proxies can have a version: that of a tag or a commit, not
// what `git describe` says between two tags.
func released(version string) bool {
	if module.Check(sdkModule, version) != nil {
		return false
	}
	prerelease := strings.TrimPrefix(semver.Prerelease(version), "-")
	if prerelease == "" || module.IsPseudoVersion(version) {
		return semver.Build(version) == ""
	}
	kind, _, _ := strings.Cut(prerelease, ".")
	return slices.Contains([]string{"alpha", "beta", "rc"}, kind) && !strings.Contains(prerelease, "-")
}
