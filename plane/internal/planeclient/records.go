package planeclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"github.com/slipway-dev/slipway/internal/management"
	"github.com/slipway-dev/slipway/plane/internal/statedir"
)

// services of a local host that have a log; see `slipway host logs`.
var services = []string{"slipway-agent", "kubelet", "containerd", "init"}

// journalLines of a plane that systemd runs are among the records.
const journalLines = 20000

// Records are the logs of the plane and what its socket serves, and with hosts the logs of
// the local hosts. The audit log is none of them: it says who read what.
func (p Plane) Records(ctx context.Context, hosts bool) ([]management.Record, error) {
	records, err := p.logs()
	if err != nil {
		return nil, err
	}
	records = append(records,
		management.Record{Name: "plane/readyz.txt", Open: p.served("/readyz")},
		management.Record{Name: "plane/metrics.txt", Open: p.served("/metrics")},
		management.Record{Name: "plane/lifecycle-metrics.txt", Open: p.served("/lifecycle/metrics")},
	)
	if !hosts {
		return records, nil
	}
	all, err := p.Manager.List(ctx)
	if err != nil {
		return records, fmt.Errorf("list the local hosts: %w", err)
	}
	for _, h := range all {
		for _, service := range services {
			// What was rotated comes first.
			for _, rotated := range []string{".1", ""} {
				open := func(context.Context) (io.ReadCloser, error) { return p.Manager.OpenLog(h.Name, service, rotated) }
				log, err := open(ctx)
				if errors.Is(err, fs.ErrNotExist) {
					continue // it has not run
				}
				if err == nil {
					_ = log.Close()
				}
				records = append(records, management.Record{Name: "hosts/" + h.Name + "/" + service + ".log" + rotated, Open: open})
			}
		}
	}
	return records, nil
}

// logs are the files of a plane that `slipway up` starts, and the journal of one that
// systemd does.
func (p Plane) logs() ([]management.Record, error) {
	installed, err := p.Services.Find(p.Instance.Dir)
	if err != nil {
		return nil, err
	}
	files := statedir.LogFiles(p.Instance.PlaneLog())
	if installed == nil && len(files) == 0 {
		files = []string{p.Instance.PlaneLog()} // whoever reads it learns that it is not there
	}
	var records []management.Record
	for _, path := range files {
		records = append(records, management.Record{Name: "plane/" + filepath.Base(path), Open: file(path)})
	}
	if installed == nil {
		return records, nil
	}
	journal := func(ctx context.Context) (io.ReadCloser, error) {
		log, err := installed.Log(ctx, journalLines)
		return io.NopCloser(bytes.NewReader(log)), err
	}
	return append(records, management.Record{Name: "plane/journal.log", Open: journal}), nil
}

func file(path string) func(context.Context) (io.ReadCloser, error) {
	return func(context.Context) (io.ReadCloser, error) { return os.Open(path) }
}

// served is what the socket of the plane answers.
func (p Plane) served(path string) func(context.Context) (io.ReadCloser, error) {
	return func(ctx context.Context) (io.ReadCloser, error) {
		socket := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", statedir.Socket(p.Instance.Dir))
		}}}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://plane"+path, http.NoBody)
		if err != nil {
			return nil, err
		}
		response, err := socket.Do(request)
		if err != nil {
			return nil, err
		}
		return response.Body, nil
	}
}
