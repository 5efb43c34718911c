// Package manager puts the lifecycle engine together for cmd/slipway-lifecycle:
// options with their flags, the cache, the runtime extension, the webhooks and the
// controllers.
//
// Every replica answers hooks and webhooks; the leader alone executes. It may import
// all of lifecycle; nothing but the command imports it.
package manager
