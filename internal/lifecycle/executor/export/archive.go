package export

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// errTooLarge says that an archive has reached its limit.
var errTooLarge = errors.New("the archive is too large")

// limited is a buffer that takes no more than limit bytes.
type limited struct {
	bytes.Buffer
	limit int64
}

// Write implements io.Writer.
func (l *limited) Write(data []byte) (int, error) {
	if int64(l.Len()+len(data)) > l.limit {
		return 0, errTooLarge
	}
	return l.Buffer.Write(data)
}

// archive collects objects as YAML files of a compressed tar. Nothing in it depends on
// when it is made.
type archive struct {
	buffer *limited
	gzip   *gzip.Writer
	tar    *tar.Writer
	paths  map[string]bool
}

func newArchive(limit int64) *archive {
	buffer := &limited{limit: limit}
	compressed := gzip.NewWriter(buffer)
	return &archive{buffer: buffer, gzip: compressed, tar: tar.NewWriter(compressed), paths: map[string]bool{}}
}

// add appends an object, unless it is there already.
func (a *archive) add(o *unstructured.Unstructured) error {
	path := pathOf(o)
	if a.paths[path] {
		return nil
	}
	a.paths[path] = true
	for _, field := range []string{"managedFields", "uid", "resourceVersion", "generation", "selfLink"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	content, err := yaml.Marshal(o.Object)
	if err != nil {
		return fmt.Errorf("write %s as YAML: %w", path, err)
	}
	header := &tar.Header{Typeflag: tar.TypeReg, Name: path, Mode: 0o600, Size: int64(len(content)), ModTime: time.Unix(0, 0), Format: tar.FormatPAX}
	if err := a.tar.WriteHeader(header); err != nil {
		return err
	}
	_, err = a.tar.Write(content)
	return err
}

// pathOf returns namespaces/<namespace>/<kind>.<group>/<name>.yaml, or
// cluster/<kind>.<group>/<name>.yaml. Names of objects hold no slashes.
func pathOf(o *unstructured.Unstructured) string {
	gvk := o.GroupVersionKind()
	kind := strings.ToLower(gvk.Kind)
	if gvk.Group != "" {
		kind += "." + gvk.Group
	}
	if o.GetNamespace() == "" {
		return fmt.Sprintf("cluster/%s/%s.yaml", kind, o.GetName())
	}
	return fmt.Sprintf("namespaces/%s/%s/%s.yaml", o.GetNamespace(), kind, o.GetName())
}

// close returns the archive.
func (a *archive) close() ([]byte, error) {
	if err := errors.Join(a.tar.Close(), a.gzip.Close()); err != nil {
		return nil, err
	}
	return a.buffer.Bytes(), nil
}
