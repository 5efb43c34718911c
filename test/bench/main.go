// Command bench measures what docs/performance.md promises of `slipway up` and
// prints the table, medians of several runs. It drives the built binaries as a
// user does and exits with 1 when a figure misses its target. It must have the
// machine to itself.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

func main() {
	bin := flag.String("bin", "bin", "directory of the built binaries")
	runs := flag.Int("runs", 5, "how many times to measure")
	settle := flag.Duration("settle", 30*time.Second, "how long the plane is left alone before its memory is read")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *bin, *runs, *settle)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, bin string, runs int, settle time.Duration) error {
	bin, err := filepath.Abs(bin)
	if err != nil {
		return err
	}
	var samples []sample
	for n := range runs {
		fmt.Fprintf(os.Stderr, "run %d of %d\n", n+1, runs)
		s, err := measure(ctx, bin, settle)
		if err != nil {
			return err
		}
		samples = append(samples, s)
	}
	return printTable(os.Stdout, samples)
}
