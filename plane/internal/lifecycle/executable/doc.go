// Package executable finds slipway-lifecycle. Commands ask it before they start a plane, and need
// nothing else of the component that runs the program.
//
// It imports nothing of this module.
package executable
