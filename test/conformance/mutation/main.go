package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mutation:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(args) > 0 && args[0] == "generate" {
		return generate(ctx, args[1:])
	}
	flags := flag.NewFlagSet("mutation", flag.ContinueOnError)
	rule := flags.String("rule", "", "regular expression of the rules whose mutations are tried; all when empty")
	workers := flags.Int("workers", 2, "mutations tried at once")
	patience := flags.Duration("patience", 90*time.Second, "how long a broken rule waits before it fails")
	if err := flags.Parse(args); err != nil {
		return err
	}
	wanted, err := regexp.Compile(*rule)
	if err != nil {
		return fmt.Errorf("-rule: %w", err)
	}
	var chosen []mutation
	for _, m := range slices.Concat(mutations, poolMutations, waitingMutations, lifecycleMutations, trustMutations) {
		if wanted.MatchString(m.Rule) {
			chosen = append(chosen, m)
		}
	}
	if len(chosen) == 0 {
		return fmt.Errorf("no mutation of a rule that matches %q", *rule)
	}
	return tryAll(ctx, chosen, *workers, *patience)
}

// errAlive is a rule that did not notice.
var errAlive = errors.New("the rule passes although it is broken")

// tryAll prints a line for each mutation as it ends, and fails when one lives.
func tryAll(ctx context.Context, chosen []mutation, workers int, patience time.Duration) error {
	var mu sync.Mutex
	done, failed := 0, 0
	report := func(m mutation, took time.Duration, err error) {
		mu.Lock()
		defer mu.Unlock()
		done++
		word := "noticed"
		if err != nil {
			failed++
			word = "FAILED "
		}
		fmt.Printf("%2d/%d  %s  %-36s %4.0f s  %s\n", done, len(chosen), word, m.Rule, took.Seconds(), m.Breaks)
		if err != nil {
			fmt.Printf("       %v\n", err)
		}
	}
	next := make(chan mutation)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(next)
		for _, m := range chosen {
			select {
			case next <- m:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	for range workers {
		group.Go(func() error {
			t, err := newTree(ctx)
			if err != nil {
				return err
			}
			defer t.remove()
			for m := range next {
				start := time.Now()
				err := t.try(ctx, m, patience)
				if ctx.Err() != nil {
					return ctx.Err()
				}
				report(m, time.Since(start), err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d mutations were not noticed by their rules", failed, len(chosen))
	}
	fmt.Printf("all %d mutations were noticed by their rules\n", len(chosen))
	return nil
}
