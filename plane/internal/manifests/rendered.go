package manifests

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
)

// The pattern includes dot files, so that the package compiles before its
// files were rendered.
//
//go:embed all:zz_rendered
var rendered embed.FS

const (
	renderedDir    = "zz_rendered"
	renderedSuffix = ".jsonl.gz"

	// maxObject is the longest line a rendered file may have, in bytes.
	maxObject = 4 << 20
)

// ErrNotRendered says that the program was built without `make manifests`.
var ErrNotRendered = errors.New("this binary was built without Cluster API's manifests: run `make manifests`, then build again")

// Upstream returns the rendered objects of the upstream providers.
func Upstream() ([]Object, error) {
	files, err := fs.Glob(rendered, path.Join(renderedDir, "*"+renderedSuffix))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, ErrNotRendered
	}
	var objs []Object
	for _, name := range files {
		f, err := rendered.Open(name)
		if err != nil {
			return nil, err
		}
		mount := strings.TrimSuffix(path.Base(name), renderedSuffix)
		part, err := decode(mount, f)
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, fmt.Errorf("rendered manifests of %s: %w", mount, err)
		}
		objs = append(objs, part...)
	}
	return objs, nil
}

// decode reads gzipped JSON, one object in each line.
func decode(mount string, r io.Reader) ([]Object, error) {
	zr, err := gzip.NewReader(r)
	if err != nil {
		return nil, err
	}
	var objs []Object
	sc := bufio.NewScanner(zr)
	sc.Buffer(nil, maxObject)
	for sc.Scan() {
		o, err := parseObject(mount, bytes.Clone(sc.Bytes()))
		if err != nil {
			return nil, err
		}
		objs = append(objs, o)
	}
	return objs, sc.Err()
}
