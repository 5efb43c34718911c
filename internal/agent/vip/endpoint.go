package vip

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// answerInterval is the time between checks of an endpoint that answers.
const answerInterval = 5 * time.Second

// Answer says whether the API server answers at the control-plane endpoint.
type Answer string

// The answers. Empty means that it is not known.
const (
	Answering    Answer = "Answering"
	NotAnswering Answer = "NotAnswering"
)

// endpoint is what a host knows of the API server at the control-plane endpoint.
type endpoint struct {
	answer Answer
	// since is when it began to fail; zero while it does not.
	since time.Time
	// problem is why it fails; empty while that is to be expected.
	problem string
}

// checkEndpoint finds out whether the API server answers at the control-plane endpoint, and
// returns the time until the next check. The host that has the address connects to it, as
// every client does; the others look at their own API server, which would have to serve
// there. The election does not wait for it.
func (k *Keeper) checkEndpoint(ctx context.Context) time.Duration {
	s := k.Status()
	if !s.Address.IsValid() || s.Port == 0 {
		return lookInterval
	}
	request, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var err error
	if s.Held {
		err = k.Server.Answers(request, netip.AddrPortFrom(s.Address, s.Port))
	} else {
		err = k.Server.Serves(request, s.Port)
	}
	if ctx.Err() != nil {
		return lookInterval
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.publish()
	switch held := k.leading || k.initial; {
	case held != s.Held || k.candidate.Address != s.Address || k.candidate.Port != s.Port:
		return lookInterval
	case held:
		return k.answered(err)
	default:
		return k.served(err)
	}
}

// answered records what the host that has the address found.
func (k *Keeper) answered(err error) time.Duration {
	e := &k.endpoint
	if err == nil {
		*e = endpoint{answer: Answering}
		return answerInterval
	}
	if e.since.IsZero() {
		e.since = k.Now()
	}
	if k.Now().Sub(e.since) < patience {
		// One request may get lost, and an API server takes its time to start.
		return renewInterval
	}
	e.answer, e.problem = NotAnswering, ""
	if !k.candidate.Initializes && !errors.Is(err, ErrNoControlPlane) {
		e.problem = fmt.Sprintf("no API server of the cluster answers at %s (%v): it must listen at this address or at all of the host, and its certificate must name the address",
			netip.AddrPortFrom(k.candidate.Address, k.candidate.Port), err)
	}
	return renewInterval
}

// served records what a host that does not have the address found.
func (k *Keeper) served(err error) time.Duration {
	k.endpoint = endpoint{}
	if other := (*PortError)(nil); errors.As(err, &other) {
		k.endpoint = endpoint{answer: NotAnswering, problem: other.Error()}
	}
	return renewInterval
}

// PortError is an API server that does not answer at the port of the control-plane endpoint.
type PortError struct {
	// Port of the endpoint.
	Port uint16
	// Listens is the port at which kubeadm had the API server listen.
	Listens string
	// Err is why it does not answer at Port.
	Err error
}

// Error implements error.
func (e *PortError) Error() string {
	return fmt.Sprintf("the API server of this host listens at port %s, and nothing of it answers at port %d of the control-plane endpoint (%v): "+
		"set localAPIEndpoint.bindPort of initConfiguration and of joinConfiguration.controlPlane to %d in the KubeadmControlPlane, or in its template with a ClusterClass, and delete the Machine of this host",
		e.Listens, e.Port, e.Err, e.Port)
}

// Unwrap returns why it does not answer.
func (e *PortError) Unwrap() error { return e.Err }
