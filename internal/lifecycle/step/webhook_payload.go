package step

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"

	"strconv"
	"strings"
	"time"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/sdk/client"
)

// payloadTypePrefix precedes the hook in the type of a payload.
const payloadTypePrefix = "slipway.lifecycle."

// webhookPayload is the body of a call. It is the same for every attempt of a step.
type webhookPayload struct {
	Type string `json:"type"`
	// Timestamp is when the step began.
	Timestamp time.Time   `json:"timestamp"`
	Data      payloadData `json:"data"`
}

type payloadData struct {
	Hook    lifecyclev1.HookName   `json:"hook"`
	Run     payloadRun             `json:"run"`
	Cluster payloadCluster         `json:"cluster"`
	Policy  string                 `json:"policy"`
	Request lifecyclev1.RunRequest `json:"request"`
}

type payloadRun struct {
	Name string `json:"name"`
	Step string `json:"step"`
	// Attempt counts how often people had the step retried.
	Attempt int32 `json:"attempt"`
}

type payloadCluster struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

func webhookBody(in Input) ([]byte, error) {
	return json.Marshal(webhookPayload{
		Type:      payloadTypePrefix + string(in.Run.Spec.Hook),
		Timestamp: in.Progress.StartTime.UTC(),
		Data: payloadData{
			Hook:    in.Run.Spec.Hook,
			Run:     payloadRun{Name: in.Run.Name, Step: in.Step.Name, Attempt: in.Progress.Attempt},
			Cluster: payloadCluster{Namespace: in.Run.Namespace, Name: in.Run.Spec.ClusterName},
			Policy:  in.Run.Spec.PolicyName,
			Request: in.Run.Spec.Request,
		},
	})
}

// messageID is the same for every attempt of a step, and differs from those of all
// other steps: of later runs with the same name by its start.
func messageID(in Input) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%s/%d/%d",
		in.Run.Namespace, in.Run.Name, in.Step.Name, in.Progress.Attempt, in.Progress.StartTime.Unix()))
	return "msg_" + hex.EncodeToString(sum[:16])
}

const (
	signingKeyPrefix = "whsec_"
	// Standard Webhooks wants keys of 24 to 64 bytes.
	shortestSigningKey, longestSigningKey = 24, 64
)

var errSigningKey = errors.New(`must be "whsec_" and 24 to 64 random bytes in base64, as Standard Webhooks has it`)

// parseSigningKey returns the bytes of a key. The error does not tell the key.
func parseSigningKey(text []byte) ([]byte, error) {
	encoded := strings.TrimPrefix(strings.TrimSpace(string(text)), signingKeyPrefix)
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(key) < shortestSigningKey || len(key) > longestSigningKey {
		return nil, errSigningKey
	}
	return key, nil
}

// sign returns the value of webhook-signature.
func sign(key []byte, id string, at time.Time, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + strconv.FormatInt(at.Unix(), 10) + "."))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// reservedNetworks are networks that are no public destination, beside those that netip itself
// knows as loopback, private, link-local and multicast: the networks of Services and
// pods are among them in practice.
var reservedNetworks = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"),   // shared address space, RFC 6598
	netip.MustParsePrefix("192.0.0.0/24"),    // IETF protocol assignments, RFC 6890
	netip.MustParsePrefix("198.18.0.0/15"),   // benchmarks, RFC 2544
	netip.MustParsePrefix("240.0.0.0/4"),     // reserved, and broadcast
	netip.MustParsePrefix("64:ff9b::/96"),    // IPv4 behind NAT64, RFC 6052
	netip.MustParsePrefix("64:ff9b:1::/48"),  // the same, RFC 8215
	netip.MustParsePrefix("2002::/16"),       // IPv4 behind 6to4, RFC 3056
	netip.MustParsePrefix("2001::/32"),       // the same by Teredo, RFC 4380
	netip.MustParsePrefix("::/96"),           // IPv4 within IPv6, RFC 4291
	netip.MustParsePrefix("::ffff:0:0:0/96"), // the same, RFC 2765
	netip.MustParsePrefix("fec0::/10"),       // site-local, RFC 3879
}

// checkDestination says why no endpoint may have an address, which is as resolved: public
// ones, and those in networks that an administrator allows. Those of client.RefuseLinkLocal, where
// clouds keep credentials, are never allowed.
func checkDestination(address netip.Addr, allowed []netip.Prefix) error {
	address = address.Unmap().WithZone("")
	if err := client.RefuseLinkLocal(address); err != nil {
		return err
	}
	for _, network := range allowed {
		if network.Contains(address) {
			return nil
		}
	}
	public := !address.IsLoopback() && !address.IsPrivate()
	for _, network := range reservedNetworks {
		public = public && !network.Contains(address)
	}
	if !public {
		return fmt.Errorf("the address %s is not public, and in no network that webhook steps may call; an administrator allows it by --webhook-allowed-networks", address)
	}
	return nil
}
