package client

import (
	"context"
	"io"
	"net/http"

	"github.com/slipway-dev/slipway/sdk/registry"
)

// Exchange posts body to a handler as it is, valid or not, and returns the HTTP
// status and the body of the answer, bounded like that of any call. It is for
// checks of extensions: breaker, policy, conversion and metrics play no part.
func (c *Client) Exchange(ctx context.Context, r *registry.Registration, body []byte) (int, []byte, error) {
	transport, err := c.transports.roundTripper(r)
	if err != nil {
		return 0, nil, err
	}
	request := newRequest(ctx, r.URL)
	setBody(request, body)
	answer, err := send(transport, request)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(http.MaxBytesReader(nil, answer.Body, maxResponseBytes))
	return answer.StatusCode, data, err
}
