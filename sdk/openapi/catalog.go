package openapi

import (
	"fmt"
	"strings"

	"github.com/slipway-dev/slipway/sdk/hook"
)

// Catalog returns the hooks of a document with their lifecycle, as the target of
// hook.CheckUpgrade: what another release supports can be known from its document
// alone. The hooks have no types and cannot be called.
func Catalog(document *Document) (*hook.Catalog, error) {
	catalog := hook.NewCatalog()
	for path, item := range document.Paths {
		if item.Post == nil {
			continue
		}
		segments := strings.Split(strings.TrimSuffix(path, "/{name}"), "/")
		if len(segments) < 4 {
			return nil, fmt.Errorf("openapi: path %q does not end in <group>/<version>/<hook>", path)
		}
		group, version, lower := segments[len(segments)-3], segments[len(segments)-2], segments[len(segments)-1]
		name := strings.TrimPrefix(item.Post.OperationID, version)
		if strings.ToLower(name) != lower {
			return nil, fmt.Errorf("openapi: path %q: operationId %q does not name its hook", path, item.Post.OperationID)
		}
		d := &hook.Definition{
			Name: hook.GroupVersionHook{Group: group, Version: version, Hook: name},
			Meta: hook.Meta{Summary: item.Post.Summary, Description: item.Post.Description, Tags: item.Post.Tags},
		}
		if life := item.Post.Lifecycle; life != nil {
			d.Meta.Lifecycle = hook.Lifecycle{
				Introduced:  hook.Release{Version: life.Introduced},
				Deprecated:  hook.Release{Version: life.Deprecated},
				Removed:     hook.Release{Version: life.Removed},
				Replacement: life.Replacement,
			}
		}
		if err := catalog.Add(d); err != nil {
			return nil, err
		}
	}
	return catalog, nil
}
