package manifests

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// converted returns the kinds of the CRDs among objs in the versions that are served but
// not stored.
func converted(objs []Object) (map[schema.GroupVersionKind]bool, error) {
	kinds := map[schema.GroupVersionKind]bool{}
	for i := range objs {
		if !objs[i].isCRD() {
			continue
		}
		var crd struct {
			Spec struct {
				Group string
				Names struct{ Kind string }

				Versions []struct {
					Name            string
					Served, Storage bool
				}
			}
		}
		if err := json.Unmarshal(objs[i].Raw, &crd); err != nil {
			return nil, fmt.Errorf("%s: %w", &objs[i], err)
		}
		for _, v := range crd.Spec.Versions {
			if v.Served && !v.Storage {
				kinds[schema.GroupVersionKind{Group: crd.Spec.Group, Version: v.Name, Kind: crd.Spec.Names.Kind}] = true
			}
		}
	}
	return kinds, nil
}
