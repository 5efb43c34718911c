package support

import (
	"context"
	"errors"
	"io"
)

// What cannot be had of a management cluster that is no plane of this machine.
var (
	errNoMetrics  = errors.New("the API server hands nobody's credential on to a pod; scrape port 8443 of the managers with an account that may get /metrics")
	errNoJournals = errors.New("only those of local hosts of a plane can be read from here; run `journalctl -u slipway-agent -u kubelet -u containerd` on the host")
)

// plane gathers what a plane of this machine tells of itself, and of its local hosts.
func (c *collector) plane(ctx context.Context) error {
	if c.cluster.Plane == nil {
		c.lacks("metrics of the managers", errNoMetrics)
		if c.Journals {
			c.lacks("journals of hosts", errNoJournals)
		}
		return nil
	}
	records, err := c.cluster.Plane.Records(ctx, c.Journals)
	if err != nil {
		c.lacks("logs of the plane", err)
	}
	for _, r := range records {
		if err := c.stream(r.Name, func() (io.ReadCloser, error) { return r.Open(ctx) }); err != nil {
			return err
		}
	}
	return nil
}
