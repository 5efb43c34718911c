package backup

import (
	"bytes"
	"context"
	"fmt"

	"github.com/slipway-dev/slipway/plane/internal/etcd"
	"github.com/slipway-dev/slipway/plane/internal/kube"
)

// Content is what a snapshot holds.
type Content struct {
	// Revision that etcd continues from after a restore.
	Revision int64 `json:"revision"`
	// Objects of all kinds.
	Objects int `json:"objects"`
	// Clusters, Machines, Hosts and Secrets among them.
	Clusters int `json:"clusters"`
	Machines int `json:"machines"`
	Hosts    int `json:"hosts"`
	Secrets  int `json:"secrets"`
}

const (
	registry       = "/registry/"
	clustersPrefix = registry + "cluster.x-k8s.io/clusters/"
	machinesPrefix = registry + "cluster.x-k8s.io/machines/"
	hostsPrefix    = registry + "infrastructure.slipway.dev/hosts/"
)

// read has a real etcd open the restored directory dir, and counts. It fails when a Secret was
// encrypted with a key that is not in the file at keys.
func read(ctx context.Context, dir, keys string) (content Content, err error) {
	readable, err := kube.ReadableSecrets(keys)
	if err != nil {
		return content, err
	}
	server, err := etcd.Open(ctx, etcd.Options{Dir: dir, Quiet: true})
	if err != nil {
		return content, err
	}
	defer func() {
		if stopped := server.Stop(context.WithoutCancel(ctx)); err == nil {
			err = stopped
		}
	}()
	content.Revision, err = server.Walk(ctx, registry, func(key, value []byte) error {
		content.Objects++
		switch {
		case bytes.HasPrefix(key, []byte(kube.SecretsPrefix)):
			content.Secrets++
			if !readable(value) {
				return fmt.Errorf("%s is not encrypted with the key in %s: nobody could read it after a restore", key, keys)
			}
		case bytes.HasPrefix(key, []byte(clustersPrefix)):
			content.Clusters++
		case bytes.HasPrefix(key, []byte(machinesPrefix)):
			content.Machines++
		case bytes.HasPrefix(key, []byte(hostsPrefix)):
			content.Hosts++
		}
		return nil
	})
	return content, err
}
