package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
)

// typePrefix precedes the hook in the type of a payload.
const typePrefix = "slipway.lifecycle."

// payload is the body of a call. It is the same for every attempt of a step.
type payload struct {
	Type string `json:"type"`
	// Timestamp is when the step began.
	Timestamp time.Time `json:"timestamp"`
	Data      data      `json:"data"`
}

type data struct {
	Hook    lifecyclev1.HookName   `json:"hook"`
	Run     run                    `json:"run"`
	Cluster cluster                `json:"cluster"`
	Policy  string                 `json:"policy"`
	Request lifecyclev1.RunRequest `json:"request"`
}

type run struct {
	Name string `json:"name"`
	Step string `json:"step"`
	// Attempt counts how often people had the step retried.
	Attempt int32 `json:"attempt"`
}

type cluster struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

func body(in step.Input) ([]byte, error) {
	return json.Marshal(payload{
		Type:      typePrefix + string(in.Run.Spec.Hook),
		Timestamp: in.Progress.StartTime.UTC(),
		Data: data{
			Hook:    in.Run.Spec.Hook,
			Run:     run{Name: in.Run.Name, Step: in.Step.Name, Attempt: in.Progress.Attempt},
			Cluster: cluster{Namespace: in.Run.Namespace, Name: in.Run.Spec.ClusterName},
			Policy:  in.Run.Spec.PolicyName,
			Request: in.Run.Spec.Request,
		},
	})
}

// messageID is the same for every attempt of a step, and differs from those of all
// other steps: of later runs with the same name by its start.
func messageID(in step.Input) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%s/%d/%d",
		in.Run.Namespace, in.Run.Name, in.Step.Name, in.Progress.Attempt, in.Progress.StartTime.Unix()))
	return "msg_" + hex.EncodeToString(sum[:16])
}

const (
	keyPrefix = "whsec_"
	// Standard Webhooks wants keys of 24 to 64 bytes.
	shortestKey, longestKey = 24, 64
)

var errKey = errors.New(`must be "whsec_" and 24 to 64 random bytes in base64, as Standard Webhooks has it`)

// parseKey returns the bytes of a key. The error does not tell the key.
func parseKey(text []byte) ([]byte, error) {
	encoded := strings.TrimPrefix(strings.TrimSpace(string(text)), keyPrefix)
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(key) < shortestKey || len(key) > longestKey {
		return nil, errKey
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
