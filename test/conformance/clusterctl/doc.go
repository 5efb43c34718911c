// Package clusterctl lets the unmodified clusterctl judge a release of Slipway: it
// reads the repository, generates from every template, installs, upgrades and
// deletes the provider on a real API server, and the generated clusters are applied
// to a live plane. What docs/clusterctl.md tells a reader to run is run as it stands there;
// a run of all tests fails when it left a command out.
//
// The release is made by the release tool, clusterctl is built from the wrapper
// module in tool/, and upstream's providers are rendered from its module.
package clusterctl
