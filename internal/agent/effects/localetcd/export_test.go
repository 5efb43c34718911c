package localetcd

import (
	"context"
	"encoding/json"
)

// Add adds a member that has not started.
func (c *Client) Add(ctx context.Context, peer string) error {
	request, err := json.Marshal(map[string][]string{"peerURLs": {peer}})
	if err != nil {
		return err
	}
	var added struct{}
	return c.post(ctx, c.endpoint+"/v3/cluster/member/add", string(request), &added)
}
