// Package display is how states and tables are shown: the roles of states with their shapes and colours,
// for the command line and the console alike, and pages for terminals of any width.
//
// It is imported by what shows something. It imports no other package of this repository.
package display
