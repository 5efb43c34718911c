// Package manager puts the provider together: options with their flags, the
// scheme, the cache, and all controllers and webhooks. Both slipway-manager and the
// plane, which runs the provider in its own process, use it.
//
// It may import every controller; nothing but a main or the plane may import it.
package manager
