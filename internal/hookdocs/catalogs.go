package hookdocs

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/slipway-dev/slipway/internal/version"
	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooks/host"
	"github.com/slipway-dev/slipway/sdk/openapi"
)

// Names of catalogs.
const (
	// CAPI holds the hooks of Cluster API, which ExtensionConfigs register for.
	CAPI = "capi"
	// Host holds the hooks of our provider, which HostExtensionConfigs register for.
	Host = "host"
	// All holds both.
	All = "all"
)

// Names returns all names of catalogs.
func Names() []string { return []string{CAPI, Host, All} }

var titles = map[string]string{
	CAPI: "Runtime hooks of Cluster API",
	Host: "Runtime hooks of the slipway provider",
	All:  "Runtime hooks of Cluster API and the slipway provider",
}

// Catalog returns the catalog of a name.
func Catalog(name string) (*hook.Catalog, error) {
	if !slices.Contains(Names(), name) {
		return nil, fmt.Errorf("catalog %q: want %s", name, strings.Join(Names(), ", "))
	}
	catalog := hook.NewCatalog()
	var errs []error
	if name != Host {
		errs = append(errs, capi.AddToCatalog(catalog))
	}
	if name != CAPI {
		errs = append(errs, host.AddToCatalog(catalog))
	}
	return catalog, errors.Join(errs...)
}

// Document describes a catalog.
func Document(name string) (*openapi.Document, error) {
	catalog, err := Catalog(name)
	if err != nil {
		return nil, err
	}
	return openapi.ForCatalog(openapi.Info{Title: titles[name], Version: version.Version}, catalog), nil
}
