// Package agentrelease reconciles AgentReleases: it asks hosts by spec.agent to update their
// slipway-agent, as internal/agentrollout plans it, and tells how far that is.
//
// Only the release of the manager's own version is rolled out, to the hosts that the manager
// serves by its namespace and watch filter. AgentReleases belong to no namespace and need no
// label: where several managers share a management cluster, each asks its own hosts, and the
// status is that of the one whose hosts changed last.
//
// What was asked is in the Hosts, so that a manager that is killed at any write goes on. A
// release that is deleted takes nothing back.
//
// internal/manager imports it.
package agentrelease
