package judge

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

// Stored returns the bytes of all objects in etcd whose key begins with prefix, such as
// /registry/infrastructure.slipway.dev/hosts/, by key. It asks etcd's JSON gateway.
func (p *Plane) Stored(ctx context.Context, prefix string) (map[string][]byte, error) {
	// The end of a range by prefix is the prefix with its last byte raised.
	end := []byte(prefix)
	end[len(end)-1]++
	body, err := json.Marshal(map[string][]byte{"key": []byte(prefix), "range_end": end})
	if err != nil {
		return nil, err
	}
	address := p.server.ControlPlane.Etcd.URL.JoinPath("v3", "kv", "range").String()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("read etcd: %w", err)
	}
	defer response.Body.Close()
	var found struct {
		KVs []struct{ Key, Value []byte }
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("read etcd: %s", response.Status)
	}
	if err := json.NewDecoder(response.Body).Decode(&found); err != nil {
		return nil, fmt.Errorf("read etcd: %w", err)
	}
	objects := map[string][]byte{}
	for _, kv := range found.KVs {
		objects[string(kv.Key)] = kv.Value
	}
	return objects, nil
}
