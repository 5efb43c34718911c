// Package extensions lets upstream's controllers call runtime extensions through
// our SDK.
//
//	topology controller ─┐
//	ClusterClass, KCP   ─┼─ Client ── sdk/client ── Dialer ──> https://127.0.0.1:9443
//	MachineDeployment   ─┘      upstream's interface        (the machine's loopback)
//
// Client is upstream's interface on top of the SDK; it keeps upstream's semantics
// where they are documented, and the SDK's where upstream's are a defect. Dialer
// reaches extensions from the machine's network instead of the plane's namespace:
// what runs beside the plane, or where the machine can reach it, can be registered.
//
// The package may import the SDK, network and upstream's types.
package extensions
