// Package webhook executes webhook steps: it calls an HTTPS endpoint, signed as
// Standard Webhooks has it (https://www.standardwebhooks.com), and tells what the
// endpoint answers.
//
//	POST <url>
//	content-type: application/json
//	webhook-id: msg_...           the same for every attempt of a step
//	webhook-timestamp: <seconds>  of the attempt
//	webhook-signature: v1,<base64 of HMAC-SHA256 over "<id>.<timestamp>.<body>">
//
//	{"type": "slipway.lifecycle.BeforeClusterUpgrade",
//	 "timestamp": "2026-01-02T03:04:05Z",
//	 "data": {"hook": "BeforeClusterUpgrade",
//	          "run": {"name": "...", "step": "...", "attempt": 0},
//	          "cluster": {"namespace": "...", "name": "..."},
//	          "policy": "...",
//	          "request": {"fromKubernetesVersion": "...", "toKubernetesVersion": "..."}}}
//
// The answer may be a JSON object with the key message, a text for people.
//
// A call goes to the address of the endpoint or fails: no redirects, no proxies, and no
// addresses but public ones and those of networks that an administrator allows. Of the
// URL, whose path and query may be a secret, only the host is ever told.
//
// It may import the API, step and endpoint.
package webhook
