package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

const usage = `usage:
  nodebundle-build assemble --bundle DIR --parts DIR --kubernetes VERSION,... --paired PART-VERSION,...
  nodebundle-build seed --bundle DIR
  nodebundle-build archives --bundle DIR --parts DIR --kubernetes VERSION,... --paired PART-VERSION,... --output DIR`

var errUsage = errors.New(usage)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "nodebundle-build:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		return errUsage
	}
	fs := flag.NewFlagSet(args[0], flag.ContinueOnError)
	bundle := fs.String("bundle", "", "directory of the bundle; binaries are expected in it already")
	switch args[0] {
	case "assemble", "archives":
		output := fs.String("output", "", "directory that archives writes to")
		parts := fs.String("parts", "", "directory of the binaries that only images hold: echo, flanneld, pause and those of --paired")
		kubernetes := fs.String("kubernetes", "", "Kubernetes versions from old to new, such as v1.35.4,v1.36.3")
		paired := fs.String("paired", "", "the parts that a Kubernetes version names by their version, such as etcd-v3.6.6,etcd-v3.6.8")
		if err := fs.Parse(args[1:]); err != nil {
			return err
		}
		if *bundle == "" || *parts == "" || *kubernetes == "" {
			return errUsage
		}
		a := assembly{bundle: *bundle, parts: *parts, kubernetes: strings.Split(*kubernetes, ","), paired: strings.Split(*paired, ",")}
		if args[0] == "assemble" {
			return assemble(ctx, a, out)
		}
		if *output == "" {
			return errUsage
		}
		return archives(ctx, a, *output, out)
	case "seed":
		if err := fs.Parse(args[1:]); err != nil {
			return err
		}
		if *bundle == "" {
			return errUsage
		}
		return seed(ctx, *bundle, out)
	default:
		return fmt.Errorf("unknown subcommand %q\n%w", args[0], errUsage)
	}
}
