package kube

import (
	"context"

	"github.com/slipway-dev/slipway/plane/internal/component"
)

// Roles is a component that is ready when the server has written RBAC's
// default roles, and with that passes all checks of its /readyz. It runs
// nothing; it lets what needs no roles go on in the meantime.
type Roles struct{ server *Server }

// NewRoles returns the Roles of a server that is started in an earlier stage.
func NewRoles(s *Server) *Roles { return &Roles{server: s} }

var _ component.Component = (*Roles)(nil)

// Name implements component.Component.
func (*Roles) Name() string { return "default-roles" }

// Init implements component.Component.
func (*Roles) Init(context.Context) error { return nil }

// Start implements component.Component.
func (*Roles) Start(context.Context) error { return nil }

// Ready implements component.Component.
func (r *Roles) Ready(ctx context.Context) error { return r.server.readyz(ctx, "/readyz") }

// Stop implements component.Component.
func (*Roles) Stop(context.Context) error { return nil }
