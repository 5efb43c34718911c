package apply

import "testing"

// FuzzParse holds that no manifest ends the process, and that what is accepted has
// all that applying needs.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "---\n---", "a: &a [*a]", "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}",
		"apiVersion: v1\nkind: List\nitems: [{kind: A, apiVersion: b/v1, metadata: {name: c}}]", "metadata: 1", "items: {}\nkind: List",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		objects, err := parse(source{kind: "ConfigMap", name: "m", key: "k"}, data)
		if err != nil {
			return
		}
		for _, o := range objects {
			if o.GetName() == "" || o.GetKind() == "" || o.GetAPIVersion() == "" || o.source.document < 1 {
				t.Errorf("accepted %v", o)
			}
			o.DeepCopy()
		}
	})
}
