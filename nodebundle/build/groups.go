package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// archives writes OCI archives of the images for real hosts, so that versions share
// what they have in common: one for the components of each Kubernetes version, whose
// layers are the same, and one for each other image, such as etcd-3.6.8-0.tar.
func archives(ctx context.Context, a assembly, output string, out io.Writer) error {
	m, err := readManifest(a.bundle)
	if err != nil {
		return err
	}
	layers, err := a.pantry()
	if err != nil {
		return err
	}
	groups := grouped(ownRecipes(m.Versions))
	for _, version := range a.kubernetes {
		refs, err := a.kubeadmImages(ctx, version)
		if err != nil {
			return err
		}
		recipes, err := a.kubeadmRecipes(version, refs)
		if err != nil {
			return err
		}
		maps.Copy(groups, grouped(recipes))
	}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		index, err := buildIndex(groups[name], layers)
		if err != nil {
			return err
		}
		err = replaceFile(filepath.Join(output, name+".tar"), 0o644, func(w io.Writer) error {
			buffered := bufio.NewWriterSize(w, 1<<20)
			return errors.Join(writeArchive(buffered, index), buffered.Flush())
		})
		if err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "%d image archives in %s\n", len(groups), output)
	return nil
}

// grouped maps the name of an archive to the recipes of its images.
func grouped(all []recipe) map[string][]recipe {
	groups := map[string][]recipe{}
	for _, r := range all {
		name := r.shortName()
		_, tag := splitTag(r.ref)
		if strings.HasPrefix(name, "kube-") {
			name = "kubernetes"
		}
		groups[name+"-"+tag] = append(groups[name+"-"+tag], r)
	}
	return groups
}
