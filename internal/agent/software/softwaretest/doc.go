// Package softwaretest has a source of host bundles for tests of what installs them. Tests of
// the agent import it; internal/bundleserver tests the real sources.
package softwaretest
