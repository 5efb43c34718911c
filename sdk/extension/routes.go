package extension

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/openapi"
)

// route is what is served at one path: a handler at one version of its hook.
type route struct {
	handler    *handler
	conversion *hook.Conversion
	warning    string
	logger     logr.Logger
	duration   prometheus.Observer
	// succeeded is the counter of the usual outcome, count finds the others.
	succeeded prometheus.Counter
	requests  *prometheus.CounterVec
}

// count returns the counter of requests with an outcome.
func (r *route) count(code int, status hooksv1.ResponseStatus) prometheus.Counter {
	if code == http.StatusOK && status == hooksv1.ResponseStatusSuccess {
		return r.succeeded
	}
	return r.requests.WithLabelValues(strconv.Itoa(code), r.handler.name, string(status))
}

// table is an immutable set of routes, replaced as a whole.
type table struct {
	routes    map[string]*route
	discovery *hooksv1.DiscoveryResponse
	// openapi generates the OpenAPI document when it is first asked for.
	openapi func() ([]byte, error)
}

// rebuild makes the routes from the handlers. The caller holds s.mu.
func (s *Server) rebuild() {
	routes := map[string]*route{}
	served := []*hook.Definition{capi.Discovery.Definition()}
	for _, h := range s.handlers {
		for _, version := range s.options.Catalog.Versions(h.definition.Name.GroupHook()) {
			conversion, err := s.options.Catalog.Conversion(version.Name, h.definition.Name)
			if err != nil {
				// An older version, or one that nothing converts: not served.
				continue
			}
			routes[s.options.PathPrefix+hook.Path(version.Name, h.name)] = s.newRoute(h, conversion)
			if !slices.Contains(served, version) {
				served = append(served, version)
			}
		}
	}
	discovery := s.discovery.definition.Name
	identity, err := discoveryCatalog.Conversion(discovery, discovery)
	if err == nil {
		routes[s.options.PathPrefix+hook.Path(discovery, "")] = s.newRoute(s.discovery, identity)
	}
	document := sync.OnceValues(func() ([]byte, error) {
		return openapi.New(openapi.Info{Title: "Runtime extension", Prefix: s.options.PathPrefix}, served).JSON()
	})
	s.table.Store(&table{routes: routes, discovery: s.discovered(), openapi: document})
}

// discoveryCatalog makes discovery known whatever catalog the extension uses.
var discoveryCatalog = func() *hook.Catalog {
	c := hook.NewCatalog()
	if err := c.Add(capi.Discovery); err != nil {
		panic(err)
	}
	return c
}()

func (s *Server) newRoute(h *handler, conversion *hook.Conversion) *route {
	name := conversion.Newer().Name
	r := &route{
		handler:    h,
		conversion: conversion,
		logger:     s.routeLogger(name, h.name),
		duration:   s.metrics.duration.WithLabelValues(name.Group, name.Version, name.Hook, h.name),
		requests: s.metrics.requests.MustCurryWith(prometheus.Labels{
			"group": name.Group, "version": name.Version, "hook": name.Hook,
		}),
	}
	r.succeeded = r.requests.WithLabelValues(strconv.Itoa(http.StatusOK), h.name, string(hooksv1.ResponseStatusSuccess))
	if meta := conversion.Newer().Meta; meta.Deprecated() {
		r.warning = `299 - "hook ` + name.String() + ` is deprecated since ` + meta.Lifecycle.Deprecated.Version +
			`; ` + meta.Lifecycle.Advice() + `"`
	}
	return r
}

// newDiscovery returns the handler that answers discovery.
func (s *Server) newDiscovery() (*handler, error) {
	h := &handler{definition: capi.Discovery.Definition(), timeout: DefaultTimeout, policy: hooksv1.FailurePolicyFail}
	var err error
	h.call, err = intercept(func(context.Context, *Call) (hooksv1.ResponseObject, error) {
		return s.table.Load().discovery.DeepCopy(), nil
	}, s.options.Interceptors)
	return h, err
}

// discovered lists the handlers in the order of their names, so that replicas of an
// extension answer alike.
func (s *Server) discovered() *hooksv1.DiscoveryResponse {
	names := slices.Sorted(maps.Keys(s.handlers))
	list := make([]hooksv1.ExtensionHandler, 0, len(names))
	for _, name := range names {
		h := s.handlers[name]
		timeout, policy := int32(h.timeout/time.Second), h.policy
		list = append(list, hooksv1.ExtensionHandler{
			Name: name,
			RequestHook: hooksv1.GroupVersionHook{
				APIVersion: hook.APIVersion(h.definition.Name),
				Hook:       h.definition.Name.Hook,
			},
			TimeoutSeconds: &timeout,
			FailurePolicy:  &policy,
		})
	}
	return &hooksv1.DiscoveryResponse{Handlers: list}
}
