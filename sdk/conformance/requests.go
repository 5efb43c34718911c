package conformance

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/openapi"
)

// handMade are requests as a manager sends them about one Cluster: with a ClusterClass, a kubeadm
// control plane, a MachineDeployment and a MachinePool, and the templates of all of them.
//
//go:embed requests
var handMade embed.FS

// example is a request that handlers of a hook are called with.
type example struct {
	// name is that of its file.
	name string
	body []byte
}

// examples are the requests for a hook: those of the files <Hook>.json and <Hook>-*.json among the
// hand-made ones and in given, or else the example of the OpenAPI document.
func examples(d *hook.Definition, given fs.FS) ([]example, error) {
	own, err := fs.Sub(handMade, "requests")
	if err != nil {
		return nil, err
	}
	var all []example
	if d.Name.Group == capiGroup {
		if all, err = fromFiles(own, d.Name.Hook); err != nil {
			return nil, err
		}
	}
	if len(all) == 0 {
		for _, item := range openapi.New(openapi.Info{}, []*hook.Definition{d}).Paths {
			if body := item.Post.RequestBody.Content["application/json"].Example; body != nil {
				all = append(all, example{"example", body})
			}
		}
	}
	if given != nil {
		more, err := fromFiles(given, d.Name.Hook)
		if err != nil {
			return nil, fmt.Errorf("requests: %w", err)
		}
		all = append(all, more...)
	}
	return all, nil
}

// capiGroup is the group of the hooks that the hand-made requests are for.
const capiGroup = "hooks.runtime.cluster.x-k8s.io"

func fromFiles(files fs.FS, hookName string) ([]example, error) {
	names, err := fs.Glob(files, hookName+"*.json")
	if err != nil {
		return nil, err
	}
	var all []example
	for _, file := range names {
		name := strings.TrimSuffix(path.Base(file), ".json")
		if name != hookName && !strings.HasPrefix(name, hookName+"-") {
			continue // another hook, whose name begins alike
		}
		body, err := fs.ReadFile(files, file)
		if err != nil {
			return nil, err
		}
		all = append(all, example{name, body})
	}
	return all, nil
}
