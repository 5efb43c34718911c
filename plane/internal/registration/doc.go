// Package registration keeps the ExtensionConfigs of extensions that run beside the plane
// or in it: what clusterctl would install, with the plane's CA, which is renewed.
//
// It may be imported by the packages of the plane that run extensions.
package registration
