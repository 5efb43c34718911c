// Package recipe says what goes into a host bundle: which programs of a node bundle,
// which images, and the files by which a host runs them. It may import hostbundle;
// nothing but slipway-bundle needs it.
package recipe
