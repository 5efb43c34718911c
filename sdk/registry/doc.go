// Package registry keeps the handlers of all known extensions and finds those that
// match a hook and an object, always in the order of their names.
//
// It takes an extension as an Entry, whatever kind of object registers it;
// FromExtensionConfig makes one of Cluster API's kind.
//
// An extension that cannot be reached stays registered with what its last
// discovery told; one that was never discovered can be registered as unresolved,
// and then fails the calls for objects that it selects. Neither stops the
// process. The package may import package hook and upstream's types.
package registry
