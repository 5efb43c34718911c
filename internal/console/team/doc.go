// Package team is slipway-console: the console in the management cluster, for people who sign in at an OpenID Connect
// provider.
//
// Each session has its own pages, watches and rights: the API server is asked as the user who signed in, by impersonation, and
// decides. The credential of the program may impersonate, by constrained impersonation of Kubernetes 1.36, and only for what its
// role names; see config/console. Sessions are in memory: a restart has everybody sign in again, which providers do by
// themselves.
package team
