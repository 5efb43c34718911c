// Package provision brings a bare machine under management from outside, over a
// connection on which it runs commands as root, and takes it out again.
//
//	the machine ── facts ──> check (pure) ──> problems, each with its remedy
//	                          plan (pure)  ──> steps that are not done yet
//	steps ── scripts ──> the machine        Host, token ──> the management cluster
//
// Adding brings the machine what it lacks and makes the Host; removing goes the other way:
// the Host is emptied and proved clean, the machine loses all that was brought, and the
// Host goes last.
//
// Nothing is remembered between two runs: what is done is seen on the machine and in the
// management cluster, so the same command goes on where an earlier one was stopped, by
// Ctrl-C or a power cut at either end. What it brings lies in one directory of root's
// until it is installed; content gets its name there once its digest was compared.
//
// A Machine is the other end; provision/remote has it by SSH. Whoever shows what happens
// gives a Report. It runs wherever kubectl does.
package provision
