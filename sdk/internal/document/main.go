// Command document prints the OpenAPI document of all hooks, as a release publishes it.
// Its argument is the version of the release. It may import the SDK.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooks/host"
	"github.com/slipway-dev/slipway/sdk/openapi"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return errors.New("want one argument, the version of the release")
	}
	catalog := hook.NewCatalog()
	if err := errors.Join(capi.AddToCatalog(catalog), host.AddToCatalog(catalog)); err != nil {
		return err
	}
	data, err := openapi.ForCatalog(openapi.Info{
		Title:       "Runtime hooks of Cluster API and the slipway provider",
		Description: "Extensions serve these hooks over HTTPS. Each version of a hook has a path; `name` is that of the handler.",
		Version:     args[0],
	}, catalog).JSON()
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(append(data, '\n'))
	return err
}
