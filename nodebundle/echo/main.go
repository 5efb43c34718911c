// Command echo is the program of the image slipway.dev/echo:v1, which demos and
// end-to-end tests run as a workload where no registry can be reached.
//
//	echo            serves HTTP on :8080 and answers with the pod's host name
//	echo get URL    fetches URL once and prints the body; the exit status is 1
//	                when the answer is not 200 OK within 5 s
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

const (
	listenAddress = ":8080"
	getTimeout    = 5 * time.Second
	drainTimeout  = 5 * time.Second
	usage         = "usage: echo [get URL]"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "echo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	switch {
	case len(args) == 0:
		return serve(ctx)
	case len(args) == 2 && args[0] == "get":
		return get(ctx, args[1], out)
	default:
		return errors.New(usage)
	}
}

// get prints the body of url.
func get(ctx context.Context, url string, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, getTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", url, resp.Status)
	}
	_, err = io.Copy(out, resp.Body)
	return err
}

// serve answers until ctx ends, then lets running requests finish.
func serve(ctx context.Context) error {
	hostname, err := os.Hostname()
	if err != nil {
		return err
	}
	server := &http.Server{Addr: listenAddress, Handler: handler(hostname), ReadHeaderTimeout: getTimeout, IdleTimeout: time.Minute}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		drain, cancel := context.WithTimeout(context.Background(), drainTimeout)
		defer cancel()
		return server.Shutdown(drain)
	}
}

// handler answers every path with hostname, so that a caller sees which replica
// of a Service it reached.
func handler(hostname string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, hostname)
	})
}
