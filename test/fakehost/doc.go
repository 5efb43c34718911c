// Package fakehost makes a host for tests: a temporary root directory, real
// shells, and programs and a network that only pretend. Nothing of the machine
// that runs the tests is changed. Tests of the agent and of the manager import it.
package fakehost
