// Command areas runs areas of the deep suite, and names those that a change can affect.
//
//	areas run AREA...   each by its make target; what it did is left in bin/deep/AREA.json
//	areas affected      a command that runs the areas which the work tree's change can affect
//	areas record        writes the results in bin/deep into the table of CONTRIBUTING.md
//
// A change is what differs from BASE: by default from where the branch left its upstream, or from
// the commit before when it has left nowhere. What an area depends on is computed from the
// imports of its packages and of the programs that its tests start; a file that is no Go code
// belongs to the nearest package above it, which embeds or reads it.
//
// It imports the names of modules from internal/testenv/source, and the standard library.
package main
