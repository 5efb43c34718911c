// Package bundlesource has a source of host bundles for tests of what installs them;
// internal/bundleserver tests the real sources. It is apart from fakehost, as its tests need
// no client of Kubernetes.
package bundlesource
