package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/semver"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	source := flags.String("source", ".", "root of the repository")
	out := flags.String("out", "out", "directory to write to")
	version := flags.String("version", "", "semantic version with a leading v")
	epoch := flags.String("epoch", os.Getenv("SOURCE_DATE_EPOCH"), "time of the release in seconds since 1970; $SOURCE_DATE_EPOCH when unset")
	archs := flags.String("architectures", strings.Join(allArchitectures, ","), "what to build for")
	installable := flags.Bool("installable", false, "write only what clusterctl and kubectl install, for tests that do")
	hostBundle := flags.String("host-bundle", "", "directory with signed host bundles to release along, such as bin/hostbundle")
	nodeBundle := flags.String("node-bundle", "", "directory of a node bundle to release along, such as bin/bundle")
	kubernetes := flags.String("kubernetes-flags", "", "flags of the linker by which the plane's programs tell the version of Kubernetes in them")
	built := flags.String("packages", "", "write only packages, of the programs in this directory, for the architecture that they were built for, which -architectures names")
	key := flags.String("key", "", "file with the private key, as slipway-bundle keygen writes it, that signs the checksums; none when empty")
	if err := flags.Parse(args); err != nil {
		return err
	}
	r, err := newRelease(*source, *out, *version, *epoch, strings.Split(*archs, ","))
	if err != nil {
		return err
	}
	r.hostBundle, r.nodeBundle, r.kubernetes, r.key, r.installable = *hostBundle, *nodeBundle, *kubernetes, *key, *installable
	if *built != "" {
		r.built = *built
		return r.packOnly(ctx)
	}
	return r.write(ctx)
}

// newRelease checks the flags.
func newRelease(source, out, version, epoch string, archs []string) (*release, error) {
	if !semver.IsValid(version) || semver.Canonical(version)+semver.Build(version) != version {
		return nil, fmt.Errorf("-version %q is not a semantic version such as v0.1.0; clusterctl refuses a release directory of another name", version)
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("-epoch %q is not a number of seconds; give the time of the commit: git log -1 --format=%%ct", epoch)
	}
	if source, err = filepath.Abs(source); err != nil {
		return nil, err
	}
	if out, err = filepath.Abs(out); err != nil {
		return nil, err
	}
	return &release{source: source, out: out, version: version, digests: map[string]string{}, time: time.Unix(seconds, 0).UTC(), architectures: archs}, nil
}
