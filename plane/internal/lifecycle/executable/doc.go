// Package executable finds the programs that belong beside slipway. Commands ask it before they start a plane, and need
// nothing else of the component that runs slipway-lifecycle.
//
// It imports nothing of this module.
package executable
