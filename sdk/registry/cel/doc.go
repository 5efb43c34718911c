// Package cel compiles the match conditions of ExtensionConfigs, which are written
// in the Common Expression Language, for registry.Options.CompileCondition.
//
// It is a package of its own so that only processes that use it link cel-go. It may
// import package registry and apimachinery.
package cel
