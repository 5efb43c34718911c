package backup

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"time"

	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/plane/internal/etcd"
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
	secretsPrefix  = registry + "secrets/"
	clustersPrefix = registry + "cluster.x-k8s.io/clusters/"
	machinesPrefix = registry + "cluster.x-k8s.io/machines/"
	hostsPrefix    = registry + "infrastructure.slipway.dev/hosts/"
)

// startPause is how long to wait between two looks at an etcd that starts.
const startPause = 50 * time.Millisecond

// read has a real etcd open the restored directory dir, and counts. It fails when a Secret was
// encrypted with a key that is not in the file at keys.
func read(ctx context.Context, dir, keys string) (content Content, err error) {
	prefixes, err := encryptedBy(keys)
	if err != nil {
		return content, err
	}
	server := etcd.New(etcd.Options{Dir: dir, Quiet: true})
	if err := start(ctx, server); err != nil {
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
		case bytes.HasPrefix(key, []byte(secretsPrefix)):
			content.Secrets++
			if !startsWithAny(value, prefixes) {
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

func start(ctx context.Context, server *etcd.Server) error {
	if err := server.Init(ctx); err != nil {
		return err
	}
	if err := server.Start(ctx); err != nil {
		return err
	}
	for {
		err := server.Ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-server.Done():
			return server.Err()
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-time.After(startPause):
		}
	}
}

// encryptedBy returns how the values of Secrets begin that were encrypted with a key of the configuration.
func encryptedBy(path string) ([][]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the key that Secrets are encrypted with: %w", err)
	}
	var config apiserverv1.EncryptionConfiguration
	if err := yaml.Unmarshal(text, &config); err != nil {
		return nil, fmt.Errorf("%s is not an EncryptionConfiguration", path)
	}
	var prefixes [][]byte
	for _, resource := range config.Resources {
		for _, provider := range resource.Providers {
			if provider.Secretbox == nil {
				continue
			}
			for _, key := range provider.Secretbox.Keys {
				prefixes = append(prefixes, []byte("k8s:enc:secretbox:v1:"+key.Name+":"))
			}
		}
	}
	return prefixes, nil
}

func startsWithAny(value []byte, prefixes [][]byte) bool {
	for _, prefix := range prefixes {
		if bytes.HasPrefix(value, prefix) {
			return true
		}
	}
	return false
}
