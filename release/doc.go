// Command release writes what a release of Slipway consists of:
//
//	repository/infrastructure-slipway/<version>/   what clusterctl reads: components, metadata, templates
//	repository/runtime-extension-slipway-lifecycle/<version>/   likewise of the lifecycle engine: components, metadata
//	assets/                                        the files of both providers again, flat as a release of GitHub has them; the plane and its node bundle (archive, deb, rpm), agent (deb and rpm, too), slipway-bundle, manager, lifecycle engine, systemd unit, ExtensionConfig, image archives, SBOMs, plugin of kubectl, alerts, dashboards, host bundles
//	SHA256SUMS                                     of every file above
//	SHA256SUMS.note                                the same with the version, signed; see slipway-bundle verify
//
// The same commit and version give the same bytes: times come from the commit,
// orders are fixed, and no path of the builder is kept.
//
// It is a module of its own, so that its dependencies are nobody else's, and it
// imports nothing of the others: it builds and renders what stands in the tree.
package main
